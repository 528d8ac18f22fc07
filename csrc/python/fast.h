/* fast.h: what the two ends of a mailbox in C share. See fast.c. */
#ifndef SHMCAST_FAST_H
#define SHMCAST_FAST_H

#define Py_LIMITED_API 0x030B0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "../api_types.h"
#include "../api.h"

#define NS_PER_S 1000000000.0
#define TIMEOUT_S_MAX 1e9
#define DEFAULT_TIMEOUT_NS UINT64_C(10000000000)
#define SLICE_NS UINT64_C(100000000)
#define SIGNALLED 1                 /* a signal handler has raised */

/* An absolute time in the past: the core looks once and does not wait. */
#define AT_ONCE (SC_UNCOUNTED | 1)

#define FAST(function) ((PyCFunction)(void (*)(void))(function))
#define INSIDE __attribute__((visibility("hidden")))

/* Set once, by connect(); the ends' types when the module is made. */
struct core {
    int (*send)(sc_sender *, uint64_t, const struct sc_part *, uint32_t, uint64_t,
                struct sc_receipt *);
    int (*receive)(sc_receiver *, void *, uint64_t, uint64_t, struct sc_message *, uint32_t);
    int (*confirm)(sc_sender *, int, const struct sc_receipt *, uint64_t);
    uint64_t (*now)(void);
    int (*loan)(sc_sender *, int, uint64_t, uint64_t, void **);
    int (*loan_send)(sc_sender *, uint64_t, uint64_t, struct sc_receipt *);
    int (*loan_drop)(sc_sender *);
    int (*view)(sc_receiver *, uint64_t, struct sc_message *, const void **);
    int (*view_release)(sc_receiver *);
    PyObject *receipt_type, *message_type;
    PyObject *sending_type, *receiving_type;
    newfunc new_tuple;
};
extern INSIDE struct core core;

extern INSIDE PyType_Spec sender_spec, receiver_spec, loan_spec, view_spec;

/* Hands a call on to a Python method of the same object. */
INSIDE PyObject *in_python(PyObject *self, const char *name, PyObject *const *args,
                           Py_ssize_t count, PyObject *keywords);
INSIDE PyObject *raise_code(PyObject *self, int code);
INSIDE void dealloc(PyObject *self);

INSIDE PyObject *receipt_of(PyObject *self, int rc, const struct sc_receipt *receipt);

/* lending.c asks the ends. Each returns 0, a negative code, or SIGNALLED. A sender remembers a
 * loan that is still looked into, without owning it, until the loan is gone. */
INSIDE int sender_lend(PyObject *self, int box, uint64_t bytes, uint64_t wait_ns, void **out);
INSIDE int sender_take_back(PyObject *self, uint64_t bytes, uint64_t wait_ns, bool send,
                            struct sc_receipt *out);
INSIDE void sender_remember(PyObject *self, PyObject *lent);
INSIDE void sender_forget(PyObject *self, PyObject *lent);
INSIDE bool still_looked_into(PyObject *lent);
INSIDE int receiver_view(PyObject *self, uint64_t wait_ns, PyObject **message,
                         struct sc_message *info, const void **out);
INSIDE int receiver_view_end(PyObject *self);

/* Takes over `data`. */
INSIDE PyObject *message_of(PyObject *data, const struct sc_message *info);

static inline void *address(PyObject *number)
{
    return PyLong_AsVoidPtr(number);
}

/* An instance of a class derived from tuple, without running its Python constructor. Takes over
 * `fields`. */
static inline PyObject *make_record(PyObject *type, PyObject *fields)
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
static inline int timeout_ns(PyObject *timeout, uint64_t *out)
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
static inline bool only_timeout(PyObject *const *values, PyObject *names, PyObject **timeout)
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

#endif
