#include "bypass.hpp"

#include "bindings.hpp"
#include "critical_section.hpp"
#include "ert_command.hpp"

int bypass::observers = 0;

bool bypass::begin(nb::object owner) {
    if (frames_ != 0 || running_ || observers != 0) return false;
    running_ = true;
    start_ns_ = card_model::monotonic_ns();
    owner_ = std::move(owner);
    return true;
}

int64_t bypass::end() {
    const int64_t taken = card_model::monotonic_ns() - start_ns_;
    if (on_end_.is_valid()) {
        over_ = true;
        PyObject *type, *value, *traceback;  // of the call that ends
        PyErr_Fetch(&type, &value, &traceback);
        const nb::object told =
            nb::steal(nb::cast<critical_section&>(section_).run(on_end_.ptr(), nullptr, 0, /*interruptible=*/false));
        if (!told.is_valid() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_WriteUnraisable(on_end_.ptr());
        if (type) PyErr_Restore(type, value, traceback);
    }
    running_ = over_ = false;  // not before: until then the scheduler has the call in its books
    const nb::object owner = std::move(owner_), section = std::move(section_), on_end = std::move(on_end_);
    return taken;
}

nb::object bypass::call() const {
    if (!running_) return nb::none();
    return nb::make_tuple(owner_, static_cast<double>(start_ns_) * 1e-9);
}

bool bypass::adopt(nb::object section, nb::callable on_end) {
    if (!running_ || on_end_.is_valid()) return false;
    section_ = std::move(section);
    on_end_ = std::move(on_end);
    return true;
}

void bypass::reset() {
    frames_ = 0;
    running_ = over_ = false;
    owner_ = section_ = on_end_ = nb::object();
}

void bind_bypass(nb::module_& module) {
    nb::class_<bypass>(module, "bypass")
        .def(nb::init<>())
        .def("enter", &bypass::enter)
        .def("leave", &bypass::leave)
        .def_prop_ro("call", &bypass::call)
        .def("adopt", &bypass::adopt, nb::arg("section"), nb::arg("on_end"))
        .def_prop_ro("adopted", &bypass::adopted)
        .def("reset", &bypass::reset);
    module.def("observe_calls", [](int observers) { bypass::observers = observers; }, nb::arg("observers"));
}
