// Networks in the dataflow simulator, for fpga_dynamo/tools/estimate/simulator.py: the kernel of each compute unit, its ports
// bound to a platform's memory, and what was counted as JSON.
#include <algorithm>
#include <cstdint>
#include <string>

#include "engine/config.hpp"
#if ENGINE_CUS > 1
#include "engine/peer_card.hpp"
#else
#include "engine/memory_ports.hpp"
#endif
#include "memory_generated.hpp"
#include "sim/card.hpp"
#include "sim/counters.hpp"

namespace {

#if ENGINE_CUS > 1
void run(engine::line_t* const* commands, uint32_t count, engine::line_t* maps, uint64_t map_lines,
         engine::line_t* const* weights, const uint64_t* weight_lines, sim::card_memory& memory) {
    engine::line_t *lists[engine::CUS], *constants[engine::CUS];
    uint64_t lines[engine::CUS];
    std::copy_n(commands, engine::CUS, lists);
    std::copy_n(weights, engine::CUS, constants);
    std::copy_n(weight_lines, engine::CUS, lines);
    engine::run_on_card(lists, count, maps, map_lines, constants, lines, memory);
}
#else
// Maps and commands lie in the platform's first bank, weights in the second where there is one.
void run(engine::line_t* const* commands, uint32_t count, engine::line_t* maps, uint64_t map_lines,
         engine::line_t* const* weights, const uint64_t* weight_lines, sim::card_memory& memory) {
    constexpr std::size_t PLACES = sizeof sim::platform::banks / sizeof *sim::platform::banks;
    const sim::bank_place &first = sim::platform::banks[0], &second = sim::platform::banks[PLACES > 1];
    const uint64_t half = first.bytes / 2, quarter = first.bytes / 4;
    const uint64_t of_maps = first.base, of_commands = first.base + half + quarter;
    const uint64_t of_weights = PLACES > 1 ? second.base : first.base + half;
    engine::memory_ports ports(commands[0], weights[0], maps);
    ports.bind(count * uint64_t{4}, weight_lines[0], map_lines, &memory, memory.holding(of_commands),
               memory.holding(of_weights), memory.holding(of_maps), {of_commands, of_weights, of_maps});
    ports.run(count);
}
#endif

std::string text;

}  // namespace

// Regions are in lines: of each unit one list, all of `count` commands, and weights. Answers JSON: the simulator's report, or
// {"error": sentence}.
extern "C" const char* engine_run(engine::line_t* const* commands, uint32_t count, engine::line_t* maps,
                                  uint64_t map_lines, engine::line_t* const* weights, const uint64_t* weight_lines) {
    try {
        sim::restart();
        sim::card_memory memory(sim::platform::banks, sim::platform::kernel_khz);
        run(commands, count, maps, map_lines, weights, weight_lines, memory);
        text = sim::json::of(sim::take_report(&memory));
    } catch (const std::exception& error) {
        text = "{" + sim::json::field("error", std::string(error.what())) + "}";
    }
    return text.c_str();
}
