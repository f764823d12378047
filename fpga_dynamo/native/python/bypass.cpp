#include "bypass.hpp"

#include "bindings.hpp"
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
        nb::error_scope pending;  // of the call that ends
        try {
            on_end_();
        } catch (nb::python_error& raised) {
            raised.discard_as_unraisable("the scheduler at the end of a direct call");
        }
    }
    running_ = false;  // not before: until then the scheduler has the call in its books
    const nb::object owner = std::move(owner_), on_end = std::move(on_end_);
    return taken;
}

nb::object bypass::call() const {
    if (!running_) return nb::none();
    return nb::make_tuple(owner_, static_cast<double>(start_ns_) * 1e-9);
}

bool bypass::adopt(nb::callable on_end) {
    if (!running_ || on_end_.is_valid()) return false;
    on_end_ = std::move(on_end);
    return true;
}

void bypass::reset() {
    frames_ = 0;
    running_ = false;
    owner_ = on_end_ = nb::object();
}

void bind_bypass(nb::module_& module) {
    nb::class_<bypass>(module, "bypass")
        .def(nb::init<>())
        .def("enter", &bypass::enter)
        .def("leave", &bypass::leave)
        .def_prop_ro("call", &bypass::call)
        .def("adopt", &bypass::adopt, nb::arg("on_end"))
        .def("reset", &bypass::reset);
    module.def("observe_calls", [](bool wanted) { bypass::observers += wanted ? 1 : -1; }, nb::arg("wanted"));
}
