#include "critical_section.hpp"

#include "bindings.hpp"
#include "interpreter.hpp"

namespace {

constexpr int ATTEMPTS = 1000;  // of a repair that is itself interrupted; then the next caller goes on with it

// The Python error that is set, with its traceback; none is set any more.
nb::object taken_error() {
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    if (traceback && value) PyException_SetTraceback(value, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    return nb::steal(value);
}

void set_error(const nb::object& error) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error.ptr())), error.ptr());
}

// Of two errors only one can be raised: an exit or an interrupt rather than an ordinary one, else the first.
void keep_graver(nb::object& error, nb::object other) {
    const auto ordinary = [](const nb::object& e) { return PyObject_IsInstance(e.ptr(), PyExc_Exception) == 1; };
    if (!error.is_valid() || (ordinary(error) && !ordinary(other))) error = std::move(other);
}

// The error that ends a `body` is handed to `leave`, whose own errors are not in its way.
void call_leave(PyObject* leave, PyObject* argument, nb::object& error) {
    for (int i = 0; i < ATTEMPTS; ++i) {
        const nb::object done = nb::steal(PyObject_CallFunctionObjArgs(leave, argument, error.ptr(), nullptr));
        if (done.is_valid()) return;
        keep_graver(error, taken_error());
    }
}

// What `with` enters and leaves: change(self, whether it is entered) in a critical section. Both are native functions, as
// an exception may end a Python function before its first statement and behind its last one.
struct guarded_scope {
    nb::object section, change;

    // change(self, entered), again until nothing interrupts it; the error that did.
    nb::object changed(nb::handle self, bool entered) const {
        nb::object error;
        PyObject* arguments[] = {self.ptr(), entered ? Py_True : Py_False};
        for (int i = 0; i < ATTEMPTS; ++i) {
            const nb::object done = nb::steal(
                nb::cast<critical_section&>(section).run(change.ptr(), arguments, 2, /*interruptible=*/false));
            if (done.is_valid()) break;
            keep_graver(error, taken_error());
        }
        return error;
    }
};

void raise_if(nb::object error) {
    if (!error.is_valid()) return;
    set_error(error);
    error.reset();
    nb::raise_python_error();
}

PyObject* call_section(PyObject* self, PyObject* args, PyObject*) noexcept {
    const Py_ssize_t count = PyTuple_GET_SIZE(args);
    if (count == 0) {
        PyErr_SetString(PyExc_TypeError, "a critical section must be called with a function and its arguments");
        return nullptr;
    }
    PyObject* const* items = &PyTuple_GET_ITEM(args, 0);
    return nb::inst_ptr<critical_section>(self)->run(items[0], items + 1, static_cast<size_t>(count - 1), true);
}

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_section)}, {0, nullptr}};

}  // namespace

critical_section::critical_section(nb::object repair) : lock_(PyThread_allocate_lock()), repair_(std::move(repair)) {
    if (!lock_) throw std::bad_alloc();
}

critical_section::~critical_section() { PyThread_free_lock(lock_); }

void critical_section::reset() {
    lock_ = PyThread_allocate_lock();  // the old one may be taken for ever
    owner_ = 0;
    damaged_ = false;
}

bool critical_section::acquire(bool interruptible) {
    if (owner_ == PyThread_get_thread_ident()) {
        PyErr_SetString(PyExc_RuntimeError,
                        "a signal handler or finalizer called into the scheduler of a model while its thread was "
                        "inside the scheduler; set a flag there, and call the model afterwards");
        return false;
    }
    PyLockStatus status = PyThread_acquire_lock_timed(lock_, 0, 0);
    while (status != PY_LOCK_ACQUIRED) {
        {
            without_gil waiting;
            status = PyThread_acquire_lock_timed(lock_, -1, interruptible);
        }
        if (status == PY_LOCK_INTR && PyErr_CheckSignals() < 0) return false;
    }
    owner_ = PyThread_get_thread_ident();
    return true;
}

void critical_section::release() {
    owner_ = 0;
    PyThread_release_lock(lock_);
}

bool critical_section::repaired(nb::object& error) {
    if (repair_.is_none()) return true;
    for (int i = 0; i < ATTEMPTS; ++i) {
        const nb::object repair = nb::steal(PyObject_CallNoArgs(repair_.ptr()));
        if (repair.is_valid() && repair.is_none()) return true;  // nobody is left to use the state
        const nb::object done = nb::steal(repair.is_valid() ? PyObject_CallNoArgs(repair.ptr()) : nullptr);
        if (done.is_valid()) return true;
        keep_graver(error, taken_error());
    }
    return false;
}

PyObject* critical_section::run(PyObject* function, PyObject* const* arguments, size_t count, bool interruptible) {
    if (!acquire(interruptible)) return nullptr;
    nb::object error;
    if (damaged_) damaged_ = !repaired(error);
    PyObject* result = nullptr;
    if (!error.is_valid()) {
        result = PyObject_Vectorcall(function, arguments, count, nullptr);
        if (!result) {
            error = taken_error();
            damaged_ = !repaired(error);
        }
    }
    release();
    if (!result) set_error(error);
    return result;
}

void bind_critical_section(nb::module_& module) {
    nb::class_<critical_section>(module, "critical_section", nb::type_slots(slots))
        .def(nb::init<nb::object>(), nb::arg("repair").none() = nb::none())
        .def("reset", &critical_section::reset);
    nb::class_<guarded_scope>(module, "guarded_scope")
        .def(
            "__init__",
            [](guarded_scope* self, nb::object section, nb::object change) {
                new (self) guarded_scope{std::move(section), std::move(change)};
            },
            nb::arg("section"), nb::arg("change"))
        .def("__enter__",
             [](nb::handle self) {
                 const auto& scope = nb::cast<const guarded_scope&>(self);
                 nb::object error = scope.changed(self, true);
                 if (error.is_valid()) scope.changed(self, false);  // who does not get in is not asked to leave
                 raise_if(std::move(error));
                 return nb::borrow(self);
             })
        .def("__exit__",
             [](nb::handle self, nb::args) { raise_if(nb::cast<const guarded_scope&>(self).changed(self, false)); });
    module.def(
        "run_frame",
        [](bypass& gate, nb::handle body, nb::handle leave, nb::handle argument) {
            gate.enter();
            const nb::object done = nb::steal(PyObject_CallOneArg(body.ptr(), argument.ptr()));
            nb::object error = done.is_valid() ? nb::object() : taken_error();
            if (error.is_valid()) call_leave(leave.ptr(), argument.ptr(), error);
            gate.leave();
            raise_if(std::move(error));
        },
        nb::arg("gate"), nb::arg("body"), nb::arg("leave"), nb::arg("argument"));
    module.def(
        "repeat",
        [](nb::handle body, nb::handle leave, nb::handle argument) {
            for (;;) {
                const nb::object done = nb::steal(PyObject_CallOneArg(body.ptr(), argument.ptr()));
                if (done.is_valid() && done.ptr() == Py_False) return;
                if (done.is_valid()) continue;
                nb::object error = taken_error();
                call_leave(leave.ptr(), argument.ptr(), error);
            }
        },
        nb::arg("body"), nb::arg("leave"), nb::arg("argument"));
}
