/* receiving.c: Receiver.receive and its batches.
 *
 * Messages that were fetched and not yet handed out lie in the buffer. `next` and `count` are
 * guarded by the GIL; whoever fetches also holds the turn. Nothing between reading them and moving
 * `next` on may let another thread run: allocating bytes does not, allocating a tuple may. */
#include "fast.h"

#include <pythread.h>

#define PREFETCH 64                 /* messages that receive() fetches in advance */
#define BATCH_MAX 256               /* messages of one batch */
#define BUFFER_BYTES_MIN 262144

struct receiver {
    PyObject_HEAD
    sc_receiver *handle;                             /* NULL: closed */
    bool waits;                                      /* the protocol waits inside of a look */
    PyThread_type_lock turn;
    unsigned char *buffer;
    uint64_t size;
    uint32_t next, count;
    struct sc_message infos[BATCH_MAX];
};

PyObject *message_of(PyObject *data, const struct sc_message *info)
{
    return make_record(core.message_type,
                       Py_BuildValue("(NKKK)", data, (unsigned long long)info->timestamp,
                                     (unsigned long long)info->sender,
                                     (unsigned long long)info->sequence));
}

/* The next message in the buffer. */
static PyObject *take(struct receiver *r)
{
    struct sc_message info = r->infos[r->next];
    PyObject *data = PyBytes_FromStringAndSize((char *)r->buffer + info.offset,
                                               (Py_ssize_t)info.bytes);
    if (!data)
        return NULL;
    r->next++;
    return message_of(data, &info);
}

/* Fills the buffer. 0, a negative code, or SIGNALLED. The caller has the turn. */
static int fetch(struct receiver *r, uint32_t most, uint64_t wait_ns)
{
    sc_receiver *handle = r->handle;
    int rc = SC_TIMEOUT;
    if (!handle)
        return SC_CLOSED;
    if (!r->waits)
        rc = core.receive(handle, r->buffer, r->size, AT_ONCE, r->infos, most);
    uint64_t end = 0;
    while (rc == SC_TIMEOUT) {
        uint64_t now = core.now();
        end = end ? end : now + wait_ns;
        bool last = now + SLICE_NS >= end;
        Py_BEGIN_ALLOW_THREADS
        rc = core.receive(handle, r->buffer, r->size, last ? end : now + SLICE_NS, r->infos, most);
        Py_END_ALLOW_THREADS
        if (last)
            break;
        if (rc == SC_TIMEOUT && PyErr_CheckSignals())
            return SIGNALLED;
    }
    if (rc < 0)
        return rc;
    r->next = 0;
    r->count = (uint32_t)rc;
    return 0;
}

/* Threads that share a receiver fetch one after the other. Waiting for the turn uses up the time. */
static bool take_turn(struct receiver *r, uint64_t *wait_ns)
{
    if (PyThread_acquire_lock(r->turn, NOWAIT_LOCK))
        return true;
    uint64_t began = core.now();
    PyLockStatus got;
    Py_BEGIN_ALLOW_THREADS
    got = PyThread_acquire_lock_timed(r->turn, (PY_TIMEOUT_T)(*wait_ns / 1000), 0);
    Py_END_ALLOW_THREADS
    uint64_t waited = core.now() - began;
    *wait_ns = waited < *wait_ns ? *wait_ns - waited : 0;
    return got == PY_LOCK_ACQUIRED;
}

/* Makes sure that the buffer holds something, and keeps the turn. 0, a code, or SIGNALLED, without
 * the turn. */
static int fill(struct receiver *r, uint32_t most, uint64_t wait_ns)
{
    if (!take_turn(r, &wait_ns))
        return SC_TIMEOUT;
    int rc = r->next < r->count ? 0 : fetch(r, most, wait_ns);
    if (rc)
        PyThread_release_lock(r->turn);
    return rc;
}

PyDoc_STRVAR(receive_doc,
"receive($self, *, timeout=None)\n--\n\n"
"The next Message in the one order; TimeoutError if none comes in time.");

static PyObject *receiver_receive(PyObject *self, PyObject *const *args, Py_ssize_t count,
                                  PyObject *keywords)
{
    struct receiver *r = (struct receiver *)self;
    PyObject *timeout;
    uint64_t wait_ns;
    if (count != 0 || !only_timeout(args, keywords, &timeout))
        return PyErr_Format(PyExc_TypeError, "receive() takes timeout= and nothing else");
    if (r->next < r->count)
        return take(r);
    if (timeout_ns(timeout, &wait_ns))
        return NULL;
    int rc = fill(r, PREFETCH, wait_ns);
    if (rc)
        return raise_code(self, rc);
    PyObject *message = take(r);
    PyThread_release_lock(r->turn);
    return message;
}

/* Payloads and what is known of them, of as many messages as the buffer has. */
static PyObject *cut(struct receiver *r, uint32_t most)
{
    uint32_t n = r->count - r->next;
    n = n < most ? n : most;
    PyObject *payloads = PyTuple_New(n);
    if (!payloads || r->count - r->next < n) {       /* another thread ran and took some */
        Py_XDECREF(payloads);
        return payloads ? Py_NewRef(Py_None) : NULL;
    }
    const struct sc_message *infos = &r->infos[r->next];
    PyObject *words = PyBytes_FromStringAndSize((const char *)infos, n * (Py_ssize_t)sizeof *infos);
    bool ok = words != NULL;
    for (uint32_t i = 0; ok && i < n; i++) {
        PyObject *data = PyBytes_FromStringAndSize((char *)r->buffer + infos[i].offset,
                                                   (Py_ssize_t)infos[i].bytes);
        ok = data != NULL && PyTuple_SetItem(payloads, i, data) == 0;
    }
    if (!ok) {
        Py_DECREF(payloads);
        Py_XDECREF(words);
        return NULL;
    }
    r->next += n;
    return Py_BuildValue("(NN)", payloads, words);
}

/* _receive_many(most, timeout) -> (payloads, words) */
static PyObject *receiver_receive_many(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct receiver *r = (struct receiver *)self;
    uint64_t wait_ns;
    if (count != 2)
        return PyErr_Format(PyExc_TypeError, "_receive_many(most, timeout)");
    long most = PyLong_AsLong(args[0]);
    if (PyErr_Occurred() || timeout_ns(args[1], &wait_ns))
        return NULL;
    most = most < BATCH_MAX ? most : BATCH_MAX;
    for (;;) {
        int rc = fill(r, (uint32_t)most, wait_ns);
        if (rc)
            return raise_code(self, rc);
        PyObject *batch = cut(r, (uint32_t)most);
        PyThread_release_lock(r->turn);
        if (batch != Py_None)
            return batch;
        Py_DECREF(batch);
    }
}

/* _await(timeout): True when receive() has something to hand out, unless another thread takes it. */
static PyObject *receiver_await(PyObject *self, PyObject *timeout)
{
    struct receiver *r = (struct receiver *)self;
    uint64_t wait_ns;
    if (timeout_ns(timeout, &wait_ns))
        return NULL;
    if (r->next < r->count)
        Py_RETURN_TRUE;
    int rc = fill(r, PREFETCH, wait_ns);
    if (rc == SC_TIMEOUT)
        Py_RETURN_FALSE;
    if (rc)
        return raise_code(self, rc);
    PyThread_release_lock(r->turn);
    Py_RETURN_TRUE;
}

/* ---- for lending.c ---- */

/* A message that was fetched in advance, or a slot. Not through fetch(): what is viewed is not
 * to be copied, and the core lets one view be open at a time. */
int receiver_view(PyObject *self, uint64_t wait_ns, PyObject **message, struct sc_message *info,
                  const void **out)
{
    struct receiver *r = (struct receiver *)self;
    sc_receiver *handle = r->handle;
    int rc = SC_TIMEOUT;
    if (r->next < r->count) {
        *info = r->infos[r->next];
        *message = take(r);
        return *message ? 0 : SIGNALLED;
    }
    if (!handle)
        return SC_CLOSED;
    if (!r->waits)
        rc = core.view(handle, AT_ONCE, info, out);
    uint64_t end = 0;
    while (rc == SC_TIMEOUT) {
        uint64_t now = core.now();
        end = end ? end : now + wait_ns;
        bool last = now + SLICE_NS >= end;
        Py_BEGIN_ALLOW_THREADS
        rc = core.view(handle, last ? end : now + SLICE_NS, info, out);
        Py_END_ALLOW_THREADS
        if (last)
            break;
        if (rc == SC_TIMEOUT && PyErr_CheckSignals())
            return SIGNALLED;
    }
    return rc;
}

int receiver_view_end(PyObject *self)
{
    sc_receiver *handle = ((struct receiver *)self)->handle;
    return handle ? core.view_release(handle) : SC_CLOSED;
}

/* _take() -> a message that was fetched in advance, or None */
static PyObject *receiver_take(PyObject *self, PyObject *unused)
{
    (void)unused;
    struct receiver *r = (struct receiver *)self;
    if (r->next < r->count)
        return take(r);
    Py_RETURN_NONE;
}

/* _fetched() -> how many were fetched in advance */
static PyObject *receiver_fetched(PyObject *self, PyObject *unused)
{
    (void)unused;
    const struct receiver *r = (struct receiver *)self;
    return PyLong_FromUnsignedLong(r->count - r->next);
}

/* _bind(handle, message_bytes_max, waits) once; _bind(0, 0, False) closes. The buffer stays: a
 * thread may be inside. */
static PyObject *receiver_bind(PyObject *self, PyObject *args)
{
    struct receiver *r = (struct receiver *)self;
    PyObject *handle;
    unsigned long long bytes;
    int waits;
    if (!PyArg_ParseTuple(args, "OKp", &handle, &bytes, &waits))
        return NULL;
    void *at = address(handle);
    if (PyErr_Occurred())
        return NULL;
    if (at && !r->buffer) {
        r->size = bytes > BUFFER_BYTES_MIN ? bytes : BUFFER_BYTES_MIN;
        r->buffer = PyMem_Malloc(r->size);
        r->turn = PyThread_allocate_lock();
        if (!r->buffer || !r->turn)
            return PyErr_NoMemory();
    }
    r->handle = at;
    r->waits = waits;
    Py_RETURN_NONE;
}

static void receiver_dealloc(PyObject *self)
{
    struct receiver *r = (struct receiver *)self;
    PyMem_Free(r->buffer);
    if (r->turn)
        PyThread_free_lock(r->turn);
    dealloc(self);
}

static PyMethodDef receiver_methods[] = {
    {"receive", FAST(receiver_receive), METH_FASTCALL | METH_KEYWORDS, receive_doc},
    {"_receive_many", FAST(receiver_receive_many), METH_FASTCALL, NULL},
    {"_await", receiver_await, METH_O, NULL},
    {"_take", receiver_take, METH_NOARGS, NULL},
    {"_fetched", receiver_fetched, METH_NOARGS, NULL},
    {"_bind", receiver_bind, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot receiver_slots[] = {
    {Py_tp_dealloc, receiver_dealloc},
    {Py_tp_methods, receiver_methods},
    {Py_tp_doc, "The receiving end: calls that must be fast."},
    {0, NULL},
};

PyType_Spec receiver_spec = {
    .name = "shmcast._fast.ReceivingEnd",
    .basicsize = sizeof(struct receiver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = receiver_slots,
};
