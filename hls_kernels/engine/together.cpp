// Runs command lists on the engine in the dataflow simulator, for fpga_dynamo/tools/estimate/simulator.py: the kernel of each compute unit, its ports bound to a
// platform's memory, and what was counted as JSON.
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/config.hpp"
#if ENGINE_CUS > 1
#include "engine/peer_ports.hpp"
#else
#include "engine/memory_ports.hpp"
#endif
#include "memory_generated.hpp"
#include "sim/card.hpp"
#include "sim/counters.hpp"

namespace {

constexpr std::size_t PLACES = sizeof sim::platform::banks / sizeof *sim::platform::banks;

const sim::bank_place& place_of(std::size_t bank) { return sim::platform::banks[bank % PLACES]; }

#if ENGINE_CUS > 1
// A guess: cycles to the next region of the chip and back, through a register slice on each side.
constexpr sim::cycle_t CROSSING = 8;

// Maps are spread over the first BANKS banks; each unit has its weights and commands in a bank of its own.
void run(engine::line_t* const* commands, uint32_t count, engine::line_t* const* maps, uint64_t map_lines,
         engine::line_t* const* weights, const uint64_t* weight_lines, sim::card_memory& memory) {
    std::vector<engine::peer_ports> cus;
    for (std::size_t cu = 0; cu < engine::CUS; cu++) {
        const sim::bank_place& own = place_of(cu);
        const uint64_t of_weights = own.base + own.bytes / 2, of_commands = of_weights + own.bytes / 4;
        engine::peer_region of_banks[engine::BANKS];
        sim::cycle_t crossings[engine::BANKS];
        for (std::size_t b = 0; b < engine::BANKS; b++) {
            of_banks[b] = {maps[b], map_lines, place_of(b).base, memory.holding(place_of(b).base)};
            crossings[b] = CROSSING * (b > cu ? b - cu : cu - b);
        }
        cus.emplace_back(
            "engine_" + std::to_string(cu + 1),
            engine::peer_region{commands[cu], count * uint64_t{4}, of_commands, memory.holding(of_commands)},
            engine::peer_region{weights[cu], weight_lines[cu], of_weights, memory.holding(of_weights)}, of_banks,
            crossings, &memory);
    }
    engine::run_together(cus, count);
}
#else
// Maps and commands lie in the platform's first bank, weights in the second where there is one.
void run(engine::line_t* const* commands, uint32_t count, engine::line_t* const* maps, uint64_t map_lines,
         engine::line_t* const* weights, const uint64_t* weight_lines, sim::card_memory& memory) {
    const sim::bank_place &first = place_of(0), &second = place_of(PLACES > 1);
    const uint64_t half = first.bytes / 2, quarter = first.bytes / 4;
    const uint64_t of_maps = first.base, of_commands = first.base + half + quarter;
    const uint64_t of_weights = PLACES > 1 ? second.base : first.base + half;
    engine::memory_ports ports(commands[0], weights[0], maps[0]);
    ports.bind(count * uint64_t{4}, weight_lines[0], map_lines, &memory, memory.holding(of_commands),
               memory.holding(of_weights), memory.holding(of_maps), {of_commands, of_weights, of_maps});
    ports.run(count);
}
#endif

std::string text;

}  // namespace

// Regions are in lines: of each unit one list, all of `count` commands, and weights; of each bank the pages of the maps that lie
// there. Answers JSON: the simulator's report, or {"error": sentence}.
extern "C" const char* engine_run(engine::line_t* const* commands, uint32_t count, engine::line_t* const* maps,
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
