// Threads of PyTorch's autograd for the cards.
#include "autograd_threads.hpp"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function.h>

namespace fpga_device {

namespace {

using torch::autograd::Engine;

// What a subclass of PyTorch's engine may use.
struct subclass : Engine {
    static auto& queues(Engine& engine) { return engine.*(&subclass::device_ready_queues_); }
    static void start(Engine& engine) { (engine.*(&subclass::start_device_threads))(); }
};

// A node of a graph of its own.
struct nothing final : torch::autograd::Node {
    using Node::Node;
    torch::autograd::variable_list apply(torch::autograd::variable_list&&) override { return {}; }
};

}  // namespace

void start_autograd_threads() {
    Engine& engine = Engine::get_default_engine();
    engine.initialize_device_threads_pool();
    if (subclass::queues(engine).empty()) subclass::start(engine);
}

void finish_autograd_threads() {
    const c10::DeviceIndex cards = c10::impl::getDeviceGuardImpl(c10::DeviceType::PrivateUse1)->deviceCount();
    for (c10::DeviceIndex card = 0; card < cards; ++card) {
        const at::Tensor empty = at::empty({0}, at::Device(c10::DeviceType::PrivateUse1, card));
        const auto last = c10::make_intrusive<nothing>(torch::autograd::edge_list{});
        last->add_input_metadata(empty);
        Engine::get_default_engine().execute({torch::autograd::Edge(last, 0)}, {empty}, false, false, true);
    }
}

}  // namespace fpga_device
