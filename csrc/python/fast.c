/* fast.c: Sender.send and Receiver.receive as Python calls them, without cffi in between.
 *
 * Everything else goes through cffi, but these two are called millions of times, and a cffi call
 * with its Python wrapper around it costs as much as the core's own work. Here a call is parsed,
 * made and answered in C.
 *
 * This module holds no part of the core: it is handed the addresses of the core's functions, so
 * that there is one core in the process, with one table of mappings.
 *
 * The GIL is held while the core tries once, which takes about a microsecond, and given up to
 * wait. Waiting is cut into slices, so that Ctrl-C is noticed.
 */
#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <pythread.h>
#include <stdbool.h>
#include <stddef.h>
#include <structmember.h>
#include <string.h>

#include "../api_types.h"
#include "../api.h"

#define NS_PER_S 1000000000.0
#define TIMEOUT_S_MAX 1e9
#define DEFAULT_TIMEOUT_NS UINT64_C(10000000000)
#define SLICE_NS UINT64_C(100000000)
#define LARGE_BYTES 65536           /* copying more than this takes long enough to let others run */
#define PREFETCH 64                 /* messages that receive() fetches in advance */
#define BATCH_MAX 256               /* messages of one batch */
#define BUFFER_BYTES_MIN 262144
#define SIGNALLED 1                 /* a signal handler has raised */

/* An absolute time in the past: the core looks once and does not wait. */
#define AT_ONCE (SC_UNCOUNTED | 1)

static struct {
    int (*send)(sc_sender *, uint64_t, const struct sc_part *, uint32_t, uint64_t,
                struct sc_receipt *);
    int (*receive)(sc_receiver *, void *, uint64_t, uint64_t, struct sc_message *, uint32_t);
    uint64_t (*now)(void);
    PyObject *receipt_type, *message_type;
    newfunc new_tuple;
} core;

/* ---- what both ends need ---- */

/* An instance of a class derived from tuple, without running its Python constructor. Takes over
 * `fields`. */
static PyObject *make_record(PyObject *type, PyObject *fields)
{
    PyObject *args = fields ? PyTuple_New(1) : NULL;
    if (!args) {
        Py_XDECREF(fields);
        return NULL;
    }
    PyTuple_SetItem(args, 0, fields);
    PyObject *record = core.new_tuple((PyTypeObject *)type, args, NULL);
    Py_DECREF(args);
    return record;
}

/* ns from now on. -1 with an exception. */
static int timeout_ns(PyObject *timeout, uint64_t *out)
{
    *out = DEFAULT_TIMEOUT_NS;
    if (timeout == Py_None)
        return 0;
    double seconds = PyFloat_AsDouble(timeout);
    if (seconds == -1.0 && PyErr_Occurred())
        return -1;
    if (!(seconds >= 0 && seconds <= TIMEOUT_S_MAX)) {
        PyErr_Format(PyExc_ValueError, "timeout must be between 0 and 1e9 seconds, not %R", timeout);
        return -1;
    }
    *out = (uint64_t)(seconds * NS_PER_S);
    return 0;
}

/* True if there is no keyword but timeout=, whose value it fetches. */
static bool only_timeout(PyObject *const *values, PyObject *names, PyObject **timeout)
{
    *timeout = Py_None;
    if (!names || PyTuple_Size(names) == 0)
        return true;
    if (PyTuple_Size(names) != 1 ||
        PyUnicode_CompareWithASCIIString(PyTuple_GetItem(names, 0), "timeout") != 0)
        return false;
    *timeout = values[0];
    return true;
}

/* Hands a call on to a Python method of the same object. */
static PyObject *in_python(PyObject *self, const char *name, PyObject *const *args,
                           Py_ssize_t count, PyObject *keywords)
{
    PyObject *method = PyObject_GetAttrString(self, name);
    PyObject *positional = method ? PyTuple_New(count) : NULL;
    PyObject *named = positional ? PyDict_New() : NULL;
    PyObject *result = NULL;
    bool ok = named != NULL;
    for (Py_ssize_t i = 0; ok && i < count; i++)
        ok = PyTuple_SetItem(positional, i, Py_NewRef(args[i])) == 0;
    for (Py_ssize_t i = 0; ok && keywords && i < PyTuple_Size(keywords); i++)
        ok = PyDict_SetItem(named, PyTuple_GetItem(keywords, i), args[count + i]) == 0;
    if (ok)
        result = PyObject_Call(method, positional, named);
    Py_XDECREF(named);
    Py_XDECREF(positional);
    Py_XDECREF(method);
    return result;
}

static PyObject *raise_code(PyObject *self, int code)
{
    if (code == SIGNALLED)
        return NULL;                                 /* the handler's exception is set */
    PyObject *result = PyObject_CallMethod(self, "_fail", "i", code);
    Py_XDECREF(result);
    if (result)
        PyErr_SetString(PyExc_SystemError, "_fail() has not raised");
    return NULL;
}

static void *address(PyObject *number)
{
    return PyLong_AsVoidPtr(number);
}

static void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}

/* ---- sending ---- */

struct sender {
    PyObject_HEAD
    sc_sender *handle;                               /* NULL: closed */
    unsigned long long boxes;                        /* 0: say to whom */
    bool waits;                                      /* the protocol waits inside of a send */
};

/* 0, a negative code, or SIGNALLED. */
static int send_parts(struct sender *s, uint64_t boxes, const struct sc_part *parts, uint32_t count,
                      uint64_t bytes, uint64_t wait_ns, struct sc_receipt *out)
{
    sc_sender *handle = s->handle;
    int rc = SC_FULL;
    if (!handle)
        return SC_CLOSED;
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
    return rc;
}

static PyObject *receipt_of(PyObject *self, int rc, const struct sc_receipt *receipt)
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

#define FAST(function) ((PyCFunction)(void (*)(void))(function))

static PyMethodDef sender_methods[] = {
    {"send", FAST(sender_send), METH_FASTCALL | METH_KEYWORDS, send_doc},
    {"_send", FAST(sender_send_boxes), METH_FASTCALL, NULL},
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

static PyType_Spec sender_spec = {
    .name = "shmcast._fast.SendingEnd",
    .basicsize = sizeof(struct sender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = sender_slots,
};

/* ---- receiving ----
 *
 * Messages that were fetched and not yet handed out lie in the buffer. `next` and `count` are
 * guarded by the GIL; whoever fetches also holds the turn. Nothing between reading them and moving
 * `next` on may let another thread run: allocating bytes does not, allocating a tuple may. */

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

/* Takes over `data`. */
static PyObject *message_of(PyObject *data, const struct sc_message *info)
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

static PyType_Spec receiver_spec = {
    .name = "shmcast._fast.ReceivingEnd",
    .basicsize = sizeof(struct receiver),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = receiver_slots,
};

/* ---- the module ---- */

/* connect(send_many, receive_many, now, Receipt, Message), once: addresses and classes. */
static PyObject *connect(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *send, *receive, *now, *receipt, *message;
    if (!PyArg_ParseTuple(args, "OOOOO", &send, &receive, &now, &receipt, &message))
        return NULL;
    *(void **)&core.send = address(send);
    *(void **)&core.receive = address(receive);
    *(void **)&core.now = address(now);
    if (PyErr_Occurred())
        return NULL;
    core.receipt_type = Py_NewRef(receipt);
    core.message_type = Py_NewRef(message);
    core.new_tuple = (newfunc)PyType_GetSlot(&PyTuple_Type, Py_tp_new);
    Py_RETURN_NONE;
}

/* messages_of(payloads, words) -> list of Message: what _receive_many() gave, unpacked */
static PyObject *messages_of(PyObject *module, PyObject *args)
{
    (void)module;
    PyObject *payloads;
    const char *words;
    Py_ssize_t bytes;
    if (!PyArg_ParseTuple(args, "O!y#", &PyTuple_Type, &payloads, &words, &bytes))
        return NULL;
    Py_ssize_t n = PyTuple_Size(payloads);
    if (bytes != n * (Py_ssize_t)sizeof(struct sc_message))
        return PyErr_Format(PyExc_ValueError, "%zd payloads, but %zd bytes of words", n, bytes);
    PyObject *messages = PyList_New(n);
    for (Py_ssize_t i = 0; messages && i < n; i++) {
        struct sc_message info;
        memcpy(&info, words + i * (Py_ssize_t)sizeof info, sizeof info);
        PyObject *message = message_of(Py_NewRef(PyTuple_GetItem(payloads, i)), &info);
        if (!message || PyList_SetItem(messages, i, message))
            Py_CLEAR(messages);
    }
    return messages;
}

static PyMethodDef module_methods[] = {
    {"messages_of", messages_of, METH_VARARGS, NULL},
    {"connect", connect, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "_fast", .m_size = -1, .m_methods = module_methods,
};

PyMODINIT_FUNC PyInit__fast(void)
{
    PyObject *made = PyModule_Create(&module);
    PyObject *sending = made ? PyType_FromSpec(&sender_spec) : NULL;
    PyObject *receiving = sending ? PyType_FromSpec(&receiver_spec) : NULL;
    if (!receiving || PyModule_AddObjectRef(made, "SendingEnd", sending) ||
        PyModule_AddObjectRef(made, "ReceivingEnd", receiving)) {
        Py_XDECREF(made);
        made = NULL;
    }
    Py_XDECREF(sending);
    Py_XDECREF(receiving);
    return made;
}
