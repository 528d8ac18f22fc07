/* sending.c: Sender.send and its batches, parsed, made and answered in C. */
#include "fast.h"

#include <stddef.h>
#include <structmember.h>

#define LARGE_BYTES 65536           /* copying more than this takes long enough to let others run */

struct sender {
    PyObject_HEAD
    sc_sender *handle;                               /* NULL: closed */
    unsigned long long boxes;                        /* 0: say to whom */
    bool waits;                                      /* the protocol waits inside of a send */
    PyObject *remembered;                            /* an ended loan, not owned; NULL: none */
};

/* A slice of the time was over, and the message sent but not decided. */
static int await_decision(sc_sender *handle, uint64_t boxes, uint64_t end,
                          const struct sc_receipt *receipt)
{
    int box = __builtin_ctzll(boxes);
    for (;;) {
        uint64_t now = core.now();
        if (now >= end)
            return SC_UNDECIDED;
        int rc;
        Py_BEGIN_ALLOW_THREADS
        rc = core.confirm(handle, box, receipt, now + SLICE_NS < end ? now + SLICE_NS : end);
        Py_END_ALLOW_THREADS
        if (rc != SC_TIMEOUT)
            return rc;
        if (PyErr_CheckSignals())
            return SIGNALLED;
    }
}

/* The slot of an ended loan is the sender's next one: nobody else may be able to write there. */
static bool slot_is_looked_into(const struct sender *s)
{
    return s->remembered && still_looked_into(s->remembered);
}

static int refuse(void)
{
    PyErr_SetString(PyExc_BufferError,
                    "an array or memoryview over the slot of an earlier loan is still there");
    return SIGNALLED;
}

/* 0, a negative code, or SIGNALLED. */
static int send_parts(struct sender *s, uint64_t boxes, const struct sc_part *parts, uint32_t count,
                      uint64_t bytes, uint64_t wait_ns, struct sc_receipt *out)
{
    sc_sender *handle = s->handle;
    int rc = SC_FULL;
    if (!handle)
        return SC_CLOSED;
    if (slot_is_looked_into(s))
        return refuse();
    if (!s->waits && bytes < LARGE_BYTES)
        rc = core.send(handle, boxes, parts, count, AT_ONCE, out);
    uint64_t end = 0;
    while (rc == SC_FULL || rc == SC_FROZEN) {
        uint64_t now = core.now();
        end = end ? end : now + wait_ns;
        bool last = now + SLICE_NS >= end;
        Py_BEGIN_ALLOW_THREADS
        rc = core.send(handle, boxes, parts, count, last ? end : SC_UNCOUNTED | (now + SLICE_NS),
                       out);
        Py_END_ALLOW_THREADS
        if (last)
            break;
        if (PyErr_CheckSignals())
            return SIGNALLED;
    }
    return rc == SC_UNDECIDED ? await_decision(handle, boxes, end, out) : rc;
}

PyObject *receipt_of(PyObject *self, int rc, const struct sc_receipt *receipt)
{
    if (rc)
        return raise_code(self, rc);
    return make_record(core.receipt_type,
                       Py_BuildValue("(KKK)", (unsigned long long)receipt->timestamp,
                                     (unsigned long long)receipt->sequence,
                                     (unsigned long long)receipt->position));
}

/* The bytes of an object; with `buffer->obj` set, it must be released. */
static int bytes_of(PyObject *data, Py_buffer *buffer, struct sc_part *part)
{
    buffer->obj = NULL;
    if (PyBytes_Check(data)) {
        *part = (struct sc_part){PyBytes_AsString(data), (uint64_t)PyBytes_Size(data)};
        return 0;
    }
    if (PyObject_GetBuffer(data, buffer, PyBUF_SIMPLE))
        return -1;
    *part = (struct sc_part){buffer->buf, (uint64_t)buffer->len};
    return 0;
}

static PyObject *send_one(struct sender *s, uint64_t boxes, struct sc_part part, Py_buffer *buffer,
                          uint64_t wait_ns)
{
    struct sc_receipt receipt;
    int rc = send_parts(s, boxes, &part, 1, part.bytes, wait_ns, &receipt);
    if (buffer->obj)
        PyBuffer_Release(buffer);
    return receipt_of((PyObject *)s, rc, &receipt);
}

PyDoc_STRVAR(send_doc,
"send($self, data, *, timeout=None, to=None)\n--\n\n"
"Returns a Receipt when every receiver will get the message, or raises and none will.\n\n"
"In `crash` and `timing` that holds while everyone keeps the bounds; confirm() waits for the\n"
"receivers' decision.");

static PyObject *sender_send(PyObject *self, PyObject *const *args, Py_ssize_t count,
                             PyObject *keywords)
{
    struct sender *s = (struct sender *)self;
    PyObject *timeout;
    Py_buffer buffer;
    struct sc_part part;
    uint64_t wait_ns;
    if (count != 1 || !s->handle || !s->boxes || !only_timeout(args + count, keywords, &timeout))
        return in_python(self, "_send_to", args, count, keywords);
    if (timeout_ns(timeout, &wait_ns))
        return NULL;
    if (bytes_of(args[0], &buffer, &part)) {         /* an array that is not contiguous */
        PyErr_Clear();
        return in_python(self, "_send_to", args, count, keywords);
    }
    return send_one(s, s->boxes, part, &buffer, wait_ns);
}

/* _send(boxes, data, timeout) */
static PyObject *sender_send_boxes(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct sender *s = (struct sender *)self;
    Py_buffer buffer;
    struct sc_part part;
    uint64_t wait_ns;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "_send(boxes, data, timeout)");
    uint64_t boxes = PyLong_AsUnsignedLongLong(args[0]);
    if (PyErr_Occurred() || timeout_ns(args[2], &wait_ns) || bytes_of(args[1], &buffer, &part))
        return NULL;
    return send_one(s, boxes, part, &buffer, wait_ns);
}

/* _try_send(boxes, data): without waiting; None if it would have to. */
static PyObject *sender_try_send(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct sender *s = (struct sender *)self;
    Py_buffer buffer;
    struct sc_part part;
    struct sc_receipt receipt;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "_try_send(boxes, data)");
    uint64_t boxes = PyLong_AsUnsignedLongLong(args[0]);
    if (PyErr_Occurred() || bytes_of(args[1], &buffer, &part))
        return NULL;
    int rc = !s->handle             ? SC_CLOSED
             : slot_is_looked_into(s) ? refuse()
                                      : core.send(s->handle, boxes, &part, 1, AT_ONCE, &receipt);
    if (buffer.obj)
        PyBuffer_Release(&buffer);
    if (rc == SC_FULL || rc == SC_FROZEN)
        Py_RETURN_NONE;
    return receipt_of(self, rc, &receipt);
}

/* Fills the parts from a tuple of bytes. Their sum, or UINT64_MAX with an exception. */
static uint64_t parts_of(PyObject *messages, Py_ssize_t count, struct sc_part *parts)
{
    uint64_t sum = 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        char *data;
        Py_ssize_t bytes;
        if (PyBytes_AsStringAndSize(PyTuple_GetItem(messages, i), &data, &bytes))
            return UINT64_MAX;
        parts[i] = (struct sc_part){data, (uint64_t)bytes};
        sum += (uint64_t)bytes;
    }
    return sum;
}

/* _send_many(boxes, messages, timeout), one operation. The tuple keeps the messages alive. */
static PyObject *sender_send_many(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct sender *s = (struct sender *)self;
    struct sc_part parts[SC_BATCH_MAX];
    struct sc_receipt receipt;
    uint64_t wait_ns;
    if (count != 3)
        return PyErr_Format(PyExc_TypeError, "_send_many(boxes, messages, timeout)");
    uint64_t boxes = PyLong_AsUnsignedLongLong(args[0]);
    if (PyErr_Occurred() || timeout_ns(args[2], &wait_ns))
        return NULL;
    PyObject *messages = PySequence_Tuple(args[1]);
    if (!messages)
        return NULL;
    Py_ssize_t many = PyTuple_Size(messages);
    if (many < 1 || many > SC_BATCH_MAX) {
        Py_DECREF(messages);
        return PyErr_Format(PyExc_ValueError, "send 1 to %d messages at a time, not %zd",
                            SC_BATCH_MAX, many);
    }
    uint64_t bytes = parts_of(messages, many, parts);
    int rc = SIGNALLED;
    if (bytes != UINT64_MAX)
        rc = send_parts(s, boxes, parts, (uint32_t)many, bytes, wait_ns, &receipt);
    Py_DECREF(messages);
    return receipt_of(self, rc, &receipt);
}

/* ---- for lending.c ---- */

int sender_lend(PyObject *self, int box, uint64_t bytes, uint64_t wait_ns, void **out)
{
    struct sender *s = (struct sender *)self;
    sc_sender *handle = s->handle;
    if (!handle)
        return SC_CLOSED;
    if (slot_is_looked_into(s))
        return refuse();
    int rc = core.loan(handle, box, bytes, AT_ONCE, out);
    uint64_t end = 0;
    while (rc == SC_FULL || rc == SC_FROZEN) {
        uint64_t now = core.now();
        end = end ? end : now + wait_ns;
        bool last = now + SLICE_NS >= end;
        Py_BEGIN_ALLOW_THREADS
        rc = core.loan(handle, box, bytes, last ? end : SC_UNCOUNTED | (now + SLICE_NS), out);
        Py_END_ALLOW_THREADS
        if (last)
            break;
        if (rc == SC_FULL && PyErr_CheckSignals())
            return SIGNALLED;
    }
    return rc;
}

int sender_take_back(PyObject *self, uint64_t bytes, uint64_t wait_ns, bool send,
                     struct sc_receipt *out)
{
    sc_sender *handle = ((struct sender *)self)->handle;
    int rc;
    if (!handle)
        return SC_CLOSED;
    Py_BEGIN_ALLOW_THREADS
    rc = send ? core.loan_send(handle, bytes, core.now() + wait_ns, out) : core.loan_drop(handle);
    Py_END_ALLOW_THREADS
    return rc;
}

void sender_remember(PyObject *self, PyObject *lent) { ((struct sender *)self)->remembered = lent; }

void sender_forget(PyObject *self, PyObject *lent)
{
    struct sender *s = (struct sender *)self;
    if (s->remembered == lent)
        s->remembered = NULL;
}

/* _bind(handle, waits); _bind(0, False) closes. */
static PyObject *sender_bind(PyObject *self, PyObject *args)
{
    struct sender *s = (struct sender *)self;
    PyObject *handle;
    int waits;
    if (!PyArg_ParseTuple(args, "Op", &handle, &waits))
        return NULL;
    void *at = address(handle);
    if (PyErr_Occurred())
        return NULL;
    s->handle = at;
    s->waits = waits;
    Py_RETURN_NONE;
}

static PyMethodDef sender_methods[] = {
    {"send", FAST(sender_send), METH_FASTCALL | METH_KEYWORDS, send_doc},
    {"_send", FAST(sender_send_boxes), METH_FASTCALL, NULL},
    {"_try_send", FAST(sender_try_send), METH_FASTCALL, NULL},
    {"_send_many", FAST(sender_send_many), METH_FASTCALL, NULL},
    {"_bind", sender_bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef sender_members[] = {
    {"_boxes", T_ULONGLONG, offsetof(struct sender, boxes), 0, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot sender_slots[] = {
    {Py_tp_dealloc, dealloc},
    {Py_tp_methods, sender_methods},
    {Py_tp_members, sender_members},
    {Py_tp_doc, "The sending end: calls that must be fast."},
    {0, NULL},
};

PyType_Spec sender_spec = {
    .name = "shmcast._fast.SendingEnd",
    .basicsize = sizeof(struct sender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = sender_slots,
};
