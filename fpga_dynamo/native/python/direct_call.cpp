#include "direct_call.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>

#include "error.hpp"
#include "fingerprint.hpp"
#include "interpreter.hpp"
#include "launchable_capsule.hpp"

using card_model::ert_state;

namespace {

constexpr size_t AHEAD = 16;  // parameters whose samples are under way

// torch's own ways to a tensor's address and version counter, without a look-up by name.
struct tensor_access {
    nb::object data_ptr, version;
    tensor_access() {
        const nb::object base = nb::module_::import_("torch").attr("_C").attr("TensorBase");
        data_ptr = base.attr("data_ptr");
        version = base.attr("_version");
    }
    static const tensor_access& get() {
        static const tensor_access& only = *new tensor_access;
        return only;
    }
};

// -1 with a Python error set if `number` (stolen) is not an integer.
int64_t integer(PyObject* number) {
    if (!number) return -1;
    const int64_t value = PyLong_AsLongLong(number);
    Py_DECREF(number);
    return value;
}

int64_t address_of(PyObject* tensor) {
    return integer(PyObject_CallOneArg(tensor_access::get().data_ptr.ptr(), tensor));
}

int64_t version_of(PyObject* tensor) {
    PyObject* descriptor = tensor_access::get().version.ptr();
    return integer(Py_TYPE(descriptor)->tp_descr_get(descriptor, tensor, reinterpret_cast<PyObject*>(Py_TYPE(tensor))));
}

bool is_given(const direct_call::source& s, PyObject* args) {
    return s.position < 0 || PyTuple_GET_ITEM(args, s.position) == s.tensor;
}

}  // namespace

direct_totals direct_call::totals;

direct_call::direct_call(nb::callable otherwise, nb::callable failed, nb::object gate, nb::callable empty,
                         nb::callable profiling, Py_ssize_t arity, nb::sequence inputs, nb::sequence outputs,
                         uint64_t commands, unsigned timeout_ms, int samples)
    : otherwise_(std::move(otherwise)),
      failed_(std::move(failed)),
      empty_(std::move(empty)),
      profiling_(std::move(profiling)),
      gate_object_(gate),
      gate_(&nb::cast<bypass&>(gate)),
      arity_(arity),
      commands_(commands),
      timeout_ms_(timeout_ms),
      samples_(samples) {
    for (const nb::handle row : inputs) {
        positions_.push_back(nb::cast<Py_ssize_t>(row[0]));
        if (positions_.back() < 0 || positions_.back() >= arity_)
            throw nb::value_error("the position of an input is out of range");
        input_slots_.add(
            {element_of(nb::cast<std::string>(row[1])), nb::cast<size_t>(row[2]), nb::cast<uint64_t>(row[3])});
    }
    for (const nb::handle row : outputs) {
        outputs_.push_back({nb::borrow(row[0]), nb::borrow(row[1]), nb::borrow(row[2])});
        output_slots_.add(
            {element_of(nb::cast<std::string>(row[3])), nb::cast<size_t>(row[4]), nb::cast<uint64_t>(row[5])});
        size_t elements = 1;
        for (const nb::handle size : nb::borrow(row[0])) elements *= nb::cast<size_t>(size);
        if (elements != output_slots_.slots.back().count) throw nb::value_error("an output does not fill its slot");
    }
}

void direct_call::bind(nb::object run, nb::object memory, nb::object owner, nb::object guard, nb::sequence sources) {
    auto fresh = std::make_shared<binding>();
    fresh->capsule = run.attr("launchable")(memory);
    fresh->target = static_cast<launchable*>(PyCapsule_GetPointer(fresh->capsule.ptr(), LAUNCHABLE_CAPSULE));
    if (!fresh->target) nb::raise_python_error();
    fresh->run_object = std::move(run);
    fresh->memory_object = std::move(memory);
    fresh->owner = std::move(owner);
    fresh->guard = std::move(guard);
    for (const nb::handle row : sources) {
        const auto position = nb::cast<Py_ssize_t>(row[0]);
        if (position >= arity_) throw nb::value_error("the position of an input is out of range");
        const nb::object tensor = row[1];
        fresh->sources.push_back({position, tensor.ptr(), position < 0 ? tensor : nb::object(),
                                  nb::cast<size_t>(row[2]), nb::cast<int64_t>(row[3]), nb::cast<int64_t>(row[4]),
                                  nb::cast<int64_t>(row[5])});
    }
    const auto same_sources = [&](const std::shared_ptr<binding>& other) {
        return std::equal(fresh->sources.begin(), fresh->sources.end(), other->sources.begin(), other->sources.end(),
                          [](const source& a, const source& b) { return a.tensor == b.tensor; });
    };
    auto kept = bindings_;  // what is dropped is let go of at the end, when this object is in order
    kept.erase(std::remove_if(kept.begin(), kept.end(), same_sources), kept.end());
    kept.insert(kept.begin(), std::move(fresh));
    bindings_.swap(kept);
}

void direct_call::unbind() {
    decltype(bindings_) dropped;
    bindings_.swap(dropped);
}

nb::list direct_call::take_durations() {
    nb::list result;
    const size_t kept = std::min(measured_, durations_.size());
    for (size_t i = measured_ - kept; i < measured_; ++i) result.append(durations_[i % durations_.size()]);
    measured_ = 0;
    return result;
}

std::shared_ptr<direct_call::binding> direct_call::find(PyObject* args) const {
    for (const auto& b : bindings_)
        if (std::all_of(b->sources.begin(), b->sources.end(), [&](const source& s) { return is_given(s, args); }))
            return b;
    return nullptr;
}

bool direct_call::unchanged(const binding& b, PyObject* args) const {
    for (size_t i = 0; i < b.sources.size(); ++i) {
        if (samples_ > 0 && i + AHEAD < b.sources.size()) {
            const source& later = b.sources[i + AHEAD];
            prefetch_samples(reinterpret_cast<const uint8_t*>(later.address), later.bytes,
                             static_cast<size_t>(samples_));
        }
        const source& s = b.sources[i];
        PyObject* tensor = s.position < 0 ? s.tensor : PyTuple_GET_ITEM(args, s.position);
        if (address_of(tensor) != s.address) return false;
        if (s.version >= 0 && version_of(tensor) != s.version) return false;
        if (samples_ < 0) continue;
        const auto* memory = reinterpret_cast<const uint8_t*>(s.address);
        if (static_cast<int64_t>(fingerprint(memory, s.bytes, static_cast<size_t>(samples_))) != s.print) return false;
    }
    return true;
}

bool direct_call::accepted(const binding& b, PyObject* args) const {
    const nb::object given = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(positions_.size())));
    for (size_t i = 0; i < positions_.size(); ++i)
        PyTuple_SET_ITEM(given.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(PyTuple_GET_ITEM(args, positions_[i])));
    const nb::object verdict = nb::steal(PyObject_Call(b.guard.ptr(), given.ptr(), nullptr));
    return verdict.ptr() == Py_True;
}

nb::object direct_call::new_results() const {
    nb::object results = nb::steal(PyTuple_New(static_cast<Py_ssize_t>(outputs_.size())));
    for (size_t i = 0; i < outputs_.size(); ++i) {
        PyObject* arguments[] = {outputs_[i].size.ptr(), outputs_[i].stride.ptr(), outputs_[i].dtype.ptr()};
        PyObject* tensor = PyObject_Vectorcall(empty_.ptr(), arguments, 3, nullptr);
        if (!tensor) return nb::object();
        PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), tensor);
    }
    return results;
}

direct_call::outcome direct_call::launch(const binding& b, PyObject* args, PyObject* given, nb::object& results,
                                         ert_state& state) {
    b.target->announce();
    if (!unchanged(b, args) || !accepted(b, args)) return outcome::refused;
    results = given ? nb::borrow(given) : new_results();
    if (!results.is_valid()) return outcome::refused;
    std::vector<const void*> from;
    std::vector<void*> to;
    from.reserve(positions_.size());
    to.reserve(outputs_.size());
    for (const Py_ssize_t position : positions_)
        from.push_back(reinterpret_cast<const void*>(address_of(PyTuple_GET_ITEM(args, position))));
    for (size_t i = 0; i < outputs_.size(); ++i)
        to.push_back(reinterpret_cast<void*>(address_of(PyTuple_GET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i)))));
    if (PyErr_Occurred()) return outcome::refused;
    try {
        without_gil release;
        state = launch_slots(*b.target, input_slots_, from, output_slots_, to, timeout_ms_);
    } catch (const std::exception&) {  // nothing has run; the long way meets the same error and tells it
        return outcome::refused;
    }
    if (state == ert_state::created) return outcome::refused;  // an integer that does not fit
    if (state != ert_state::completed) return outcome::failed;
    totals.launches += 1;
    totals.commands += commands_;
    totals.bytes_in += input_slots_.bytes;
    totals.bytes_out += output_slots_.bytes;
    return outcome::done;
}

PyObject* direct_call::call(PyObject* args, PyObject* kwargs) {
    PyObject* given = nullptr;  // a tuple of tensors for the results
    if (kwargs && PyDict_GET_SIZE(kwargs) == 1) given = PyDict_GetItemString(kwargs, "into");
    if (given && (!PyTuple_Check(given) || PyTuple_GET_SIZE(given) != static_cast<Py_ssize_t>(outputs_.size())))
        throw nb::type_error("`into` has to be a tuple of as many tensors as the graph has results");
    if (given) kwargs = nullptr;
    std::shared_ptr<binding> b;
    if (!kwargs || PyDict_GET_SIZE(kwargs) == 0)
        if (PyTuple_GET_SIZE(args) == arity_) b = find(args);
    const nb::object profiled = b ? nb::steal(PyObject_CallNoArgs(profiling_.ptr())) : nb::object();
    if (b && profiled.ptr() == Py_False && gate_->begin(b->owner)) {
        nb::object results;
        ert_state state = ert_state::created;
        outcome how = outcome::refused;
        try {
            how = launch(*b, args, given, results, state);
        } catch (const std::exception&) {  // no memory for lists: the gate has to be opened all the same
        }
        if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
        durations_[measured_++ % durations_.size()] = static_cast<double>(gate_->end()) * 1e-9;
        if (PyErr_Occurred()) return nullptr;  // an interrupt or an exit, which is nobody's to handle here
        if (how == outcome::done) return results.release().ptr();
        if (how == outcome::failed) failed_(b->run_object, static_cast<unsigned>(state));
    }
    PyErr_Clear();
    return PyObject_Call(otherwise_.ptr(), args, kwargs);
}

namespace {

PyObject* call_direct(PyObject* self, PyObject* args, PyObject* kwargs) noexcept {
    try {
        return nb::inst_ptr<direct_call>(self)->call(args, kwargs);
    } catch (nb::python_error& raised) {
        raised.restore();
    } catch (const std::exception& reason) {
        PyErr_SetString(PyExc_RuntimeError, reason.what());
    }
    return nullptr;
}

PyType_Slot slots[] = {{Py_tp_call, reinterpret_cast<void*>(call_direct)}, {0, nullptr}};

}  // namespace

void bind_direct_call(nb::module_& module) {
    nb::class_<direct_call>(module, "direct_call", nb::type_slots(slots), nb::is_weak_referenceable())
        .def(nb::init<nb::callable, nb::callable, nb::object, nb::callable, nb::callable, Py_ssize_t, nb::sequence,
                      nb::sequence, uint64_t, unsigned, int>(),
             nb::kw_only(), nb::arg("otherwise"), nb::arg("failed"), nb::arg("gate"), nb::arg("empty"),
             nb::arg("profiling"), nb::arg("arity"), nb::arg("inputs"), nb::arg("outputs"), nb::arg("commands"),
             nb::arg("timeout_ms"), nb::arg("samples"))
        .def("bind", &direct_call::bind, nb::arg("run"), nb::arg("memory"), nb::arg("owner"), nb::arg("guard"),
             nb::arg("sources"))
        .def("unbind", &direct_call::unbind)
        .def("take_durations", &direct_call::take_durations)
        .def("__deepcopy__", [](nb::handle self, nb::handle) { return nb::borrow(self); }, nb::arg("memo"));
    module.def("direct_totals", [] {
        const direct_totals& sums = direct_call::totals;
        return nb::make_tuple(sums.launches, sums.commands, sums.bytes_in, sums.bytes_out);
    });
}
