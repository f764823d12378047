#include "driver_device.hpp"

#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "error.hpp"
#include "interpreter.hpp"

namespace {

using card_model::direction;
using card_model::ert_state;
using card_model::transfer;
using fd::device_memory;
using fd::kernel_description;
using fd::launch_memory;
using fd::role;

// The GIL of a thread that may not have it; an error once the interpreter shuts down.
class entered {
public:
    entered() {
        if (!interpreter_gate::instance().enter()) throw card_model::error("the interpreter is shutting down");
        state_ = PyGILState_Ensure();
    }
    ~entered() {
        PyGILState_Release(state_);
        interpreter_gate::instance().leave();
    }
    entered(const entered&) = delete;
    entered& operator=(const entered&) = delete;

private:
    PyGILState_STATE state_;
};

// An object that is let go of with the GIL, from whichever thread; never once the interpreter shuts down.
class held_object {
public:
    explicit held_object(nb::object object) : object_(object.release().ptr()) {}
    ~held_object() {
        with_interpreter([this] { Py_DECREF(object_); });
    }
    held_object(const held_object&) = delete;
    held_object& operator=(const held_object&) = delete;
    nb::handle get() const { return object_; }

private:
    PyObject* object_;
};

struct driver_memory : device_memory {
    driver_memory(std::shared_ptr<held_object> of, nb::object buffer)
        : device(std::move(of)), object(std::move(buffer)) {}
    void write(const void* from, uint64_t bytes, uint64_t offset) override {
        const entered interpreter;
        device->get().attr("write")(object.get(), reinterpret_cast<uint64_t>(from), bytes, offset);
    }
    const std::shared_ptr<held_object> device;
    const held_object object;
};

nb::handle object_of(const std::shared_ptr<device_memory>& memory) {
    return static_cast<const driver_memory&>(*memory).object.get();
}

class driver_launch : public launchable {
public:
    driver_launch(std::shared_ptr<held_object> of, nb::object run, launch_memory memory)
        : device_(std::move(of)), run_(std::move(run)), memory_(std::move(memory)) {}

    // Memory here: what is written to it is sent with the next launch, and what is read came with the last one.
    uint8_t* window(direction way, uint64_t bytes, uint64_t offset) override {
        std::vector<uint8_t>& place = windows_[{way, offset}];
        if (place.size() < bytes) place.resize(bytes);
        if (way == direction::to_device) written_.push_back({reinterpret_cast<uint64_t>(place.data()), bytes, offset});
        return place.data();
    }

    ert_state launch(const crossing& inputs, const crossing& outputs, unsigned timeout_ms) override {
        std::vector<transfer> given = inputs.pieces, back = outputs.pieces;
        given.insert(given.end(), written_.begin(), written_.end());
        written_.clear();
        for (const extent& one : outputs.windows)
            back.push_back({reinterpret_cast<uint64_t>(window(direction::from_device, one.bytes(), one.begin)),
                            one.bytes(), one.begin});
        const entered interpreter;
        const nb::object answer = device_->get().attr("execute")(run_.get(), object_of(memory_.arena), rows(given),
                                                                 rows(back), timeout_ms);
        error_ = nb::cast<const char*>(answer[1]);
        return static_cast<ert_state>(nb::cast<uint32_t>(answer[0]));
    }

    std::string error() const override { return error_; }

private:
    static nb::list rows(const std::vector<transfer>& pieces) {
        nb::list result;
        for (const transfer& one : pieces) result.append(nb::make_tuple(one.host, one.bytes, one.offset));
        return result;
    }

    const std::shared_ptr<held_object> device_;
    const held_object run_;
    const launch_memory memory_;
    std::map<std::pair<direction, uint64_t>, std::vector<uint8_t>> windows_;
    std::vector<transfer> written_;
    std::string error_;
};

class python_device : public fd::device {
public:
    explicit python_device(nb::object opened) : opened_(std::make_shared<held_object>(std::move(opened))) {}

    std::shared_ptr<device_memory> allocate(const kernel_description& kernel, role argument, uint64_t bytes) override {
        size_t index = 0;
        while (index < kernel.arguments.size() && kernel.arguments[index] != argument) ++index;
        const entered interpreter;
        return std::make_shared<driver_memory>(
            opened_, opened_->get().attr("allocate")(kernel.name.c_str(), kernel.units[0].c_str(), index, bytes));
    }

    std::unique_ptr<launchable> prepare(const kernel_description& kernel, size_t unit,
                                        const launch_memory& memory) override {
        const entered interpreter;
        nb::list values;
        for (const role argument : kernel.arguments) switch (argument) {
                case role::count: values.append(memory.count); break;
                case role::commands: values.append(object_of(memory.commands)); break;
                case role::arena: values.append(object_of(memory.arena)); break;
                case role::weights: values.append(object_of(memory.weights)); break;
            }
        nb::object run = opened_->get().attr("prepare")(kernel.name.c_str(), kernel.units[unit].c_str(), values);
        return std::make_unique<driver_launch>(opened_, std::move(run), memory);
    }

private:
    const std::shared_ptr<held_object> opened_;
};

}  // namespace

std::function<std::shared_ptr<fd::device>(const std::string&, const std::string&)> driver_opener(nb::object opener) {
    const auto held = std::make_shared<held_object>(std::move(opener));
    return [held](const std::string& path, const std::string& uuid) -> std::shared_ptr<fd::device> {
        fd::check_xclbin(path, uuid);
        const entered interpreter;
        return std::make_shared<python_device>(held->get()(path.c_str()));
    };
}
