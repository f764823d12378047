// Threads of PyTorch's autograd for the cards.
#include "autograd_threads.hpp"

#include <torch/csrc/autograd/engine.h>

namespace fpga_device {

namespace {

using torch::autograd::Engine;

// What a subclass of PyTorch's engine may use.
struct subclass : Engine {
    static size_t threads(Engine& engine) { return (engine.*(&subclass::device_ready_queues_)).size(); }
    static void start(Engine& engine) { (engine.*(&subclass::start_device_threads))(); }
};

}  // namespace

void start_autograd_threads() {
    Engine& engine = Engine::get_default_engine();
    engine.initialize_device_threads_pool();
    if (subclass::threads(engine) == 0) subclass::start(engine);
}

}  // namespace fpga_device
