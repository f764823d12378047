#include "python_programs.hpp"

#include <torch/csrc/Dtype.h>
#include <torch/csrc/DynamicTypes.h>
#include <torch/csrc/autograd/python_variable.h>

namespace fpga_device {

namespace {

namespace py = pybind11;

// Kept by tensors and threads that may end after the interpreter, so it is let go of only while there is one.
class kept {
public:
    explicit kept(py::object object) : object_(object.release().ptr()) {}
    ~kept() {
        if (!Py_IsInitialized()) return;
        const PyGILState_STATE state = PyGILState_Ensure();  // pybind11's guard may throw
        Py_DECREF(object_);
        PyGILState_Release(state);
    }
    kept(const kept&) = delete;
    kept& operator=(const kept&) = delete;
    py::handle get() const { return object_; }

private:
    PyObject* object_;
};

py::tuple tuple_of(const std::vector<at::Tensor>& tensors) {
    py::tuple made(tensors.size());
    for (size_t i = 0; i < tensors.size(); ++i)
        PyTuple_SET_ITEM(made.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(tensors[i]));
    return made;
}

class python_program final : public card_program {
public:
    explicit python_program(py::object call) : call_(std::move(call)) {}

    void run(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& results) const override {
        const py::gil_scoped_acquire locked;
        const py::tuple into = tuple_of(results);
        py::dict keywords;
        keywords["into"] = into;
        const auto made =
            py::reinterpret_steal<py::object>(PyObject_Call(call_.get().ptr(), tuple_of(inputs).ptr(), keywords.ptr()));
        if (!made) throw py::error_already_set();
        if (made.is(into)) return;
        const py::sequence others = made;  // after a call by the whole way
        for (size_t i = 0; i < results.size(); ++i) results[i].copy_(THPVariable_Unpack(py::object(others[i]).ptr()));
    }

private:
    const kept call_;
};

py::object to_python(const c10::IValue& value, const c10::TypePtr& type) {
    const auto optional = type->cast<c10::OptionalType>();
    const c10::TypePtr element = optional ? optional->getElementType() : type;
    if (value.isTensor() && value.toTensor().defined())
        return py::reinterpret_steal<py::object>(THPVariable_Wrap(value.toTensor()));
    if (value.isNone() || value.isTensor()) return py::none();
    if (value.isInt() && element->kind() == c10::TypeKind::ScalarTypeType)
        return py::reinterpret_borrow<py::object>(
            reinterpret_cast<PyObject*>(torch::getTHPDtype(static_cast<at::ScalarType>(value.toInt()))));
    if (value.isInt()) return py::int_(value.toInt());
    if (value.isDouble()) return py::float_(value.toDouble());
    if (value.isBool()) return py::bool_(value.toBool());
    if (value.isString()) return py::str(value.toStringRef());
    const auto list = element->cast<c10::ListType>();
    py::list made;
    for (const c10::IValue& each : value.toListRef())
        made.append(to_python(each, list ? list->getElementType() : element));
    return made;
}

class python_compiler final : public operator_compiler {
public:
    explicit python_compiler(py::object compiler) : compiler_(std::move(compiler)) {}

    std::string refusal(const c10::OperatorHandle& op) override {
        const py::gil_scoped_acquire locked;
        return compiler_.get()
            .attr("refusal")(op.operator_name().name, op.operator_name().overload_name)
            .cast<std::string>();
    }

    compiled compile(const c10::OperatorHandle& op, const std::vector<c10::IValue>& arguments,
                     c10::DeviceIndex index) override {
        const py::gil_scoped_acquire locked;
        // What compiles calls operators of its own, as a thread that is in none.
        const c10::impl::ForceDispatchKeyGuard plain(
            c10::impl::LocalDispatchKeySet(c10::impl::PODLocalDispatchKeySet{}));
        py::list given;
        for (size_t i = 0; i < arguments.size(); ++i)
            given.append(to_python(arguments[i], op.schema().arguments()[i].real_type()));
        const py::tuple found = compiler_.get().attr("compile")(op.operator_name().name,
                                                                op.operator_name().overload_name, given, index);
        compiled made;
        made.reason = found[2].cast<std::string>();
        if (py::object(found[0]).is_none()) return made;
        made.program = std::make_shared<python_program>(found[0]);
        for (const py::handle row : found[1]) {
            result_kind result;
            if (!row.is_none()) {
                const auto parts = row.cast<py::tuple>();
                const py::object dtype = parts[2];
                result = {true, parts[0].cast<std::vector<int64_t>>(), parts[1].cast<std::vector<int64_t>>(),
                          reinterpret_cast<THPDtype*>(dtype.ptr())->scalar_type};
            }
            made.results.push_back(std::move(result));
        }
        return made;
    }

private:
    const kept compiler_;
};

}  // namespace

std::shared_ptr<operator_compiler> compile_in_python(py::object compiler) {
    return std::make_shared<python_compiler>(std::move(compiler));
}

}  // namespace fpga_device
