/* lending.c: slots that the application writes (Loan) or reads (View) where they lie.
 *
 * A slot is a buffer that counts who looks into it: arrays and memoryviews. They may outlive the
 * block that lent it, and whoever writes then would write into a message that is sent, or into
 * the sender's next one, and so destroy the copy. So a loan that is still looked into is not
 * sent, and the sender sends nothing until the last of them is gone. A view cannot be written.
 */
#include "fast.h"

#include <structmember.h>

struct lent {
    PyObject_HEAD
    PyObject *end;                                   /* keeps the memory mapped */
    PyObject *whole;                                 /* a memoryview, once asked for */
    PyObject *message;                               /* of a view: fetched in advance, not lent */
    void *memory;                                    /* NULL: not lent yet */
    Py_ssize_t bytes;
    Py_ssize_t exports;
    bool writable, active;
    int box;
    uint64_t wait_ns;
    struct sc_receipt receipt;
    bool sent;
    struct sc_message info;
};

bool still_looked_into(PyObject *lent) { return ((struct lent *)lent)->exports > 0; }

static int get_buffer(PyObject *self, Py_buffer *out, int flags)
{
    struct lent *l = (struct lent *)self;
    if (!l->memory) {
        out->obj = NULL;
        PyErr_SetString(PyExc_ValueError, "outside of its block there is no slot");
        return -1;
    }
    int rc = PyBuffer_FillInfo(out, self, l->memory, l->bytes, !l->writable, flags);
    l->exports += rc == 0;
    return rc;
}

static void release_buffer(PyObject *self, Py_buffer *buffer)
{
    (void)buffer;
    ((struct lent *)self)->exports--;
}

static PyObject *get_data(PyObject *self, void *unused)
{
    (void)unused;
    struct lent *l = (struct lent *)self;
    if (!l->whole)
        l->whole = PyMemoryView_FromObject(l->message ? PyTuple_GetItem(l->message, 0) : self);
    return Py_XNewRef(l->whole);
}

/* `whole` is ours to end; slices of it, and arrays, are not. */
static void end_whole(struct lent *l)
{
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyObject *done = l->whole ? PyObject_CallMethod(l->whole, "release", NULL) : NULL;
    Py_XDECREF(done);
    PyErr_Clear();                                   /* looked into: counted in `exports` */
    Py_CLEAR(l->whole);
    PyErr_Restore(type, value, trace);
}

/* `whole` refers to the slot and the slot to it, so the collector must know. */
static int lent_traverse(PyObject *self, visitproc visit, void *arg)
{
    struct lent *l = (struct lent *)self;
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(l->end);
    Py_VISIT(l->whole);
    Py_VISIT(l->message);
    return 0;
}

static int lent_clear(PyObject *self)
{
    struct lent *l = (struct lent *)self;
    if (l->writable && l->end)
        sender_forget(l->end, self);
    Py_CLEAR(l->whole);
    Py_CLEAR(l->message);
    Py_CLEAR(l->end);
    return 0;
}

static void lent_dealloc(PyObject *self)
{
    PyObject_GC_UnTrack(self);
    lent_clear(self);
    dealloc(self);
}

/* The slot of an end that must be of this type. */
static struct lent *lent_new(PyTypeObject *type, PyObject *end, PyObject *wanted, PyObject *timeout)
{
    uint64_t wait_ns;
    if (!PyObject_TypeCheck(end, (PyTypeObject *)wanted)) {
        PyErr_Format(PyExc_TypeError, "made by Sender.loan() and Receiver.view() only");
        return NULL;
    }
    if (timeout_ns(timeout, &wait_ns))
        return NULL;
    allocfunc make = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    struct lent *l = (struct lent *)make(type, 0);
    if (!l)
        return NULL;
    l->end = Py_NewRef(end);
    l->wait_ns = wait_ns;
    return l;
}

/* ---- loans ---- */

/* Loan(sender, box, size, timeout) */
static PyObject *loan_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *sender, *timeout;
    int box;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "OinO", &sender, &box, &bytes, &timeout))
        return NULL;
    if (bytes < 0)
        return PyErr_Format(PyExc_ValueError, "size must not be negative, not %zd", bytes);
    struct lent *l = lent_new(type, sender, core.sending_type, timeout);
    if (!l)
        return NULL;
    l->box = box;
    l->bytes = bytes;
    l->writable = true;
    return (PyObject *)l;
}

static PyObject *loan_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct lent *l = (struct lent *)self;
    if (l->active || l->sent)
        return PyErr_Format(PyExc_ValueError, "a loan has one block");
    int rc = sender_lend(l->end, l->box, (uint64_t)l->bytes, l->wait_ns, &l->memory);
    if (rc)
        return raise_code(l->end, rc);
    l->active = true;
    return Py_NewRef(self);
}

static PyObject *loan_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct lent *l = (struct lent *)self;
    if (count != 3 || !l->active)
        return PyErr_Format(PyExc_ValueError, "the block of a loan has not begun");
    bool raised = args[0] != Py_None;
    l->active = false;
    end_whole(l);
    l->memory = NULL;                                /* from now on nobody can begin to look */
    bool kept = l->exports > 0;
    if (kept)
        sender_remember(l->end, self);
    int rc = sender_take_back(l->end, (uint64_t)l->bytes, l->wait_ns, !raised && !kept, &l->receipt);
    if (rc)
        return raise_code(l->end, rc);
    if (kept && !raised)
        return PyErr_Format(PyExc_BufferError, "not sent: an array or memoryview over the slot "
                                               "outlives its block; use del before the block ends");
    l->sent = !raised;
    Py_RETURN_NONE;
}

static PyObject *get_receipt(PyObject *self, void *unused)
{
    (void)unused;
    const struct lent *l = (struct lent *)self;
    if (!l->sent)
        Py_RETURN_NONE;
    return receipt_of(l->end, 0, &l->receipt);
}

static PyMethodDef loan_methods[] = {
    {"__enter__", loan_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(loan_exit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef loan_values[] = {
    {"data", get_data, NULL, NULL, NULL},
    {"receipt", get_receipt, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot loan_slots[] = {
    {Py_tp_new, loan_new},
    {Py_tp_dealloc, lent_dealloc},
    {Py_tp_traverse, lent_traverse},
    {Py_tp_clear, lent_clear},
    {Py_tp_methods, loan_methods},
    {Py_tp_getset, loan_values},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {Py_tp_doc, "A slot that is lent to be written."},
    {0, NULL},
};

PyType_Spec loan_spec = {
    .name = "shmcast._fast.LentSlot",
    .basicsize = sizeof(struct lent),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = loan_slots,
};

/* ---- views ---- */

/* View(receiver, timeout) */
static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
    (void)keywords;
    PyObject *receiver, *timeout;
    if (!PyArg_ParseTuple(args, "OO", &receiver, &timeout))
        return NULL;
    return (PyObject *)lent_new(type, receiver, core.receiving_type, timeout);
}

static PyObject *view_enter(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct lent *l = (struct lent *)self;
    const void *memory;
    if (l->active || l->memory || l->message)
        return PyErr_Format(PyExc_ValueError, "a view has one block");
    int rc = receiver_view(l->end, l->wait_ns, &l->message, &l->info, &memory);
    if (rc)
        return raise_code(l->end, rc);
    if (l->message) {
        memory = PyBytes_AsString(PyTuple_GetItem(l->message, 0));
        l->bytes = PyBytes_Size(PyTuple_GetItem(l->message, 0));
    } else {
        l->active = true;
        l->bytes = (Py_ssize_t)l->info.bytes;
    }
    l->memory = (void *)(uintptr_t)memory;
    return Py_NewRef(self);
}

/* Raises if what was read may be wrong: evicted meanwhile, or the copy died. */
static PyObject *view_exit(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct lent *l = (struct lent *)self;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "__exit__(type, error, trace)");
    Py_CLEAR(l->whole);
    if (!l->active)
        Py_RETURN_NONE;
    l->active = false;
    int rc = receiver_view_end(l->end);
    if (rc && args[0] == Py_None)
        return raise_code(l->end, rc);
    Py_RETURN_NONE;
}

static PyMethodDef view_methods[] = {
    {"__enter__", view_enter, METH_NOARGS, NULL},
    {"__exit__", FAST(view_exit), METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef view_values[] = {
    {"data", get_data, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

#define INFO(field) offsetof(struct lent, info) + offsetof(struct sc_message, field)

static PyMemberDef view_members[] = {
    {"timestamp", T_ULONGLONG, INFO(timestamp), READONLY, NULL},
    {"sender", T_ULONGLONG, INFO(sender), READONLY, NULL},
    {"sequence", T_ULONGLONG, INFO(sequence), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot view_slots[] = {
    {Py_tp_new, view_new},
    {Py_tp_dealloc, lent_dealloc},
    {Py_tp_traverse, lent_traverse},
    {Py_tp_clear, lent_clear},
    {Py_tp_methods, view_methods},
    {Py_tp_members, view_members},
    {Py_tp_getset, view_values},
    {Py_bf_getbuffer, get_buffer},
    {Py_bf_releasebuffer, release_buffer},
    {Py_tp_doc, "A slot that is lent to be read."},
    {0, NULL},
};

PyType_Spec view_spec = {
    .name = "shmcast._fast.SeenSlot",
    .basicsize = sizeof(struct lent),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = view_slots,
};
