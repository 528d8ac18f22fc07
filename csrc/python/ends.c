/* ends.c: what a sending and a receiving end do alike, off the fast path. */
#include "fast.h"

struct core core;

PyObject *in_python(PyObject *self, const char *name, PyObject *const *args, Py_ssize_t count,
                    PyObject *keywords)
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

PyObject *raise_code(PyObject *self, int code)
{
    if (code == SIGNALLED)
        return NULL;                                 /* the handler's exception is set */
    PyObject *result = PyObject_CallMethod(self, "_fail", "i", code);
    Py_XDECREF(result);
    if (result)
        PyErr_SetString(PyExc_SystemError, "_fail() has not raised");
    return NULL;
}

void dealloc(PyObject *self)
{
    PyTypeObject *type = Py_TYPE(self);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(self);
    Py_DECREF(type);
}
