// Runs a command list on the engine in the dataflow simulator, for run.py: one kernel, its ports bound to memories, and what
// was counted as JSON.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>

#include "engine/engine.hpp"
#include "sim/counters.hpp"
#include "sim/memory.hpp"

namespace {

std::string text;

std::unique_ptr<sim::bank> bank_of(const char* kind, const char* name) {
    (void)kind;
    return std::make_unique<sim::ideal_bank>(name, 60);
}

}  // namespace

// Both regions are in lines. Answers JSON: the simulator's report, or {"error": sentence}.
extern "C" const char* engine_run(engine::line_t* commands, uint32_t count, engine::line_t* maps, uint64_t map_lines,
                                  engine::line_t* weights, uint64_t weight_lines, const char* kind) {
    try {
        sim::memory memory;
        sim::bank* all[2];
        for (sim::bank*& bank : all) bank = memory.add(bank_of(kind, &bank == all ? "maps" : "weights"));
        const uint64_t second = uint64_t{1} << 32;
        engine::port_t ports[] = {commands, weights, maps, maps, maps};
        const char* names[] = {"commands", "weights", "input", "residual", "output"};
        for (int i = 0; i < 5; i++) {
            const bool of_maps = i >= 2;
            const uint64_t lines = i == 0 ? count * uint64_t{4} : of_maps ? map_lines : weight_lines;
            sim::bind(ports[i], {names[i], lines, i == 0 ? 2 * second : of_maps ? 0 : second}, &memory, all[of_maps ? 0 : 1]);
        }
        engine::run_list(ports[0], count, ports[1], ports[2], ports[3], ports[4]);
        text = sim::json::of(sim::take_report(&memory));
    } catch (const std::exception& error) {
        text = "{" + sim::json::field("error", std::string(error.what())) + "}";
    }
    return text.c_str();
}
