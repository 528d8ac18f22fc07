/* fast.c: sending, receiving, loans and views as Python calls them, without cffi in between.
 *
 * Everything else goes through cffi, but these are called millions of times, and a cffi call
 * with its Python wrapper around it costs as much as the core's own work. Here a call is parsed,
 * made and answered in C.
 *
 * This module holds no part of the core: it is handed the addresses of the core's functions, so
 * that there is one core in the process, with one table of mappings.
 *
 * The GIL is held while the core tries once, which takes about a microsecond, and given up to
 * wait. Waiting is cut into slices, so that Ctrl-C is noticed.
 *
 * The ends are in sending.c and receiving.c, slots in place in lending.c; this file is the module.
 */
#include "fast.h"

#include <string.h>

/* connect(functions, Receipt, Message), once: the core's functions by address, and classes. */
static PyObject *connect(PyObject *module, PyObject *args)
{
    (void)module;
    void **const places[] = {(void **)&core.send, (void **)&core.receive, (void **)&core.confirm,
                             (void **)&core.now, (void **)&core.loan, (void **)&core.loan_send,
                             (void **)&core.loan_drop, (void **)&core.view,
                             (void **)&core.view_release};
    const Py_ssize_t wanted = sizeof places / sizeof *places;
    PyObject *functions, *receipt, *message;
    if (!PyArg_ParseTuple(args, "O!OO", &PyTuple_Type, &functions, &receipt, &message))
        return NULL;
    if (PyTuple_Size(functions) != wanted)
        return PyErr_Format(PyExc_TypeError, "connect() takes %zd functions", wanted);
    for (Py_ssize_t i = 0; i < wanted; i++)
        *places[i] = address(PyTuple_GetItem(functions, i));
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
    const struct {
        const char *name;
        PyType_Spec *spec;
        PyObject **keep;
    } types[] = {{"SendingEnd", &sender_spec, &core.sending_type},
                 {"ReceivingEnd", &receiver_spec, &core.receiving_type},
                 {"LentSlot", &loan_spec, NULL},
                 {"SeenSlot", &view_spec, NULL}};
    PyObject *made = PyModule_Create(&module);
    for (size_t i = 0; made && i < sizeof types / sizeof *types; i++) {
        PyObject *type = PyType_FromSpec(types[i].spec);
        if (!type || PyModule_AddObjectRef(made, types[i].name, type))
            Py_CLEAR(made);
        if (types[i].keep && made)
            *types[i].keep = Py_NewRef(type);
        Py_XDECREF(type);
    }
    return made;
}
