// Runs a command list on the engine in the dataflow simulator, for run.py: one kernel, its ports bound to a platform's memory,
// and what was counted as JSON.
#include <cstdint>
#include <memory>
#include <string>

#include "engine/memory_ports.hpp"
#include "memory_generated.hpp"
#include "sim/card.hpp"
#include "sim/counters.hpp"

namespace {

std::string text;

}  // namespace

// Both regions are in lines; maps and commands lie in the platform's first bank, weights in the second where there is one.
// Answers JSON: the simulator's report, or {"error": sentence}.
extern "C" const char* engine_run(engine::line_t* commands, uint32_t count, engine::line_t* maps, uint64_t map_lines,
                                  engine::line_t* weights, uint64_t weight_lines) {
    try {
        sim::card_memory memory(sim::platform::banks, sim::platform::kernel_khz);
        constexpr std::size_t BANKS = sizeof sim::platform::banks / sizeof *sim::platform::banks;
        const sim::bank_place &first = sim::platform::banks[0], &second = sim::platform::banks[BANKS > 1];
        const uint64_t half = first.bytes / 2, quarter = first.bytes / 4;
        const uint64_t of_maps = first.base, of_commands = first.base + half + quarter;
        const uint64_t of_weights = BANKS > 1 ? second.base : first.base + half;
        engine::memory_ports ports(commands, weights, maps);
        ports.bind(count * uint64_t{4}, weight_lines, map_lines, &memory, memory.holding(of_commands),
                   memory.holding(of_weights), memory.holding(of_maps), {of_commands, of_weights, of_maps});
        ports.run(count);
        text = sim::json::of(sim::take_report(&memory));
    } catch (const std::exception& error) {
        text = "{" + sim::json::field("error", std::string(error.what())) + "}";
    }
    return text.c_str();
}
