// The engine's ports to memory that lies in the process: for benches, and for whoever counts cycles.
#pragma once
#include "engine.hpp"

namespace engine {

// Where the command list, the weights and the maps begin on the card.
struct region_addresses {
    uint64_t commands, weights, maps;
};

class memory_ports {
public:
    memory_ports(line_t* commands, line_t* weights, line_t* maps)
        : commands_(reinterpret_cast<uint32_t*>(commands)),
          weights_(reinterpret_cast<beat_t*>(weights)),
          input_(reinterpret_cast<beat_t*>(maps)),
          residual_(reinterpret_cast<beat_t*>(maps)),
          output_(maps) {}

    // Sizes in lines; without a memory beats cost nothing.
    void bind(uint64_t commands, uint64_t weights, uint64_t maps) {
        sim::bind(commands_, {"commands", commands * COMMAND_BEATS});
        sim::bind(weights_, {"weights", weights * LINE_BEATS});
        sim::bind(input_, {"input", maps * LINE_BEATS});
        sim::bind(residual_, {"residual", maps * LINE_BEATS});
        sim::bind(output_, {"output", maps});
    }
    // Each region in a bank.
    void bind(uint64_t commands, uint64_t weights, uint64_t maps, sim::memory* memory, sim::bank* of_commands,
              sim::bank* of_weights, sim::bank* of_maps, const region_addresses& at) {
        sim::bind(commands_, {"commands", commands * COMMAND_BEATS, at.commands}, memory, of_commands);
        sim::bind(weights_, {"weights", weights * LINE_BEATS, at.weights}, memory, of_weights);
        sim::bind(input_, {"input", maps * LINE_BEATS, at.maps}, memory, of_maps);
        sim::bind(residual_, {"residual", maps * LINE_BEATS, at.maps}, memory, of_maps);
        sim::bind(output_, {"output", maps, at.maps}, memory, of_maps);
    }
    void bind(uint64_t commands, uint64_t weights, uint64_t maps, sim::memory* memory, sim::bank* bank,
              const region_addresses& at = {0, 0, 0}) {
        bind(commands, weights, maps, memory, bank, bank, bank, at);
    }
    void run(uint32_t count) { run_list(commands_, count, weights_, input_, residual_, output_); }

private:
    static constexpr uint64_t COMMAND_BEATS = LINE_BYTES / 4;
    command_port_t commands_;
    weight_port_t weights_;
    input_port_t input_, residual_;
    port_t output_;
};

}  // namespace engine
