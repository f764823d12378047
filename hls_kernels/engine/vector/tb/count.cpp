// Cycles of one command of the vector side by the simulator, with a memory that answers after 60 cycles.
//
//     count OPERATION HEADS PIXELS CHANNELS GROUP_LINES [other | wide | WORDS]
//
// WORDS is the length of the runs of a gather. As many words behind each are left out.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "../../layout.hpp"
#include "../../memory_ports.hpp"
#include "../check.hpp"

int main(int argc, char** argv) {
    if (argc < 6) {
        std::fprintf(stderr, "count OPERATION HEADS PIXELS CHANNELS GROUP_LINES [other | wide | WORDS]\n");
        return 2;
    }
    engine::vector_command c = {};
    c.opcode = engine::ENGINE_VECTOR;
    c.operation = std::atoi(argv[1]);
    c.heads[0] = 1;
    c.heads[1] = std::atoi(argv[2]);
    c.pixels = std::atoi(argv[3]);
    c.channels = std::atoi(argv[4]);
    c.group_lines = std::atoi(argv[5]);
    c.epsilon = c.row_scale = 1.0f;
    c.input_scale = fpga::make_channel(1, 0, 255).scale;
    c.low = -128;
    c.high = 127;
    const int32_t one = static_cast<int32_t>(engine::map_lines(c.pixels, c.channels)), all = one * c.heads[1];
    const bool wide = argc > 6 && std::strcmp(argv[6], "wide") == 0;
    const bool other = argc > 6 && std::strcmp(argv[6], "other") == 0;
    c.flags = wide ? engine::VECTOR_WIDE : 0;
    c.input = 1;
    c.other = other ? static_cast<uint32_t>(1 + all) : engine::NO_OPERAND;
    c.output = static_cast<uint32_t>(1 + 2 * all);
    c.input_head[1] = wide ? 2 * one : one;
    c.output_head[1] = c.other_head[1] = one;
    if (engine::interleaves(c)) {  // two maps of so many pixels, word by word
        c.turns[0] = c.turns[1] = 1;
        c.taken[0] = c.taken[1] = c.pixels;
        c.pixels = c.row = 2 * c.pixels;
        c.output_head[1] = 2 * one;
    }
    if (engine::casts(c)) {  // so many words of int8
        const bool quantizes = engine::quantizes(c);
        c.taken[0] = quantizes ? 4 * c.pixels : c.pixels;
        if (!quantizes) c.pixels *= 4;
        (quantizes ? c.input_head : c.output_head)[1] = 4 * one;
        c.output = static_cast<uint32_t>(1 + 4 * all);
    }
    std::vector<engine::line_t> list(4), maps(static_cast<std::size_t>(1 + 8 * all)), parameters(600);
    if (engine::gathers(c)) {
        const int32_t words = std::atoi(argv[6]);
        c.runs = engine::divide_up(c.pixels, words);
        c.taken[0] = 2 * c.pixels;
        c.input *= engine::BEAT;
        c.input_head[1] = 2 * one * engine::BEAT;
        parameters.resize(static_cast<std::size_t>(engine::run_lines(c)));
        for (int32_t n = 0; n < c.runs; n++) {
            const int32_t left = engine::divide_up(c.pixels, engine::BEAT) * engine::BEAT - n * words;
            const int32_t last = n == c.runs - 1 ? left : words;
            engine::line_t& line = parameters[static_cast<std::size_t>(n / engine::LINE_RUNS)];
            engine::set_bits32(line, n % engine::LINE_RUNS * 4, static_cast<uint32_t>(2 * n * words));
            engine::set_bits32(line, n % engine::LINE_RUNS * 4 + 1, static_cast<uint32_t>(last));
        }
    }
    if (engine::is_constant(c)) parameters.resize(static_cast<std::size_t>(all));
    if (const char* why = engine::refusal(c)) {
        std::fprintf(stderr, "count: the command %s\n", why);
        return 2;
    }
    std::memcpy(static_cast<void*>(list.data()), &c, sizeof c);
    sim::memory memory;
    sim::bank* bank = memory.add(std::make_unique<sim::ideal_bank>("DDR[0]", 60));
    engine::memory_ports ports(list.data(), parameters.data(), maps.data());
    ports.bind(0, 0, 0, &memory, bank);
    ports.run(1);
    std::printf("%s\n", sim::json::of(sim::take_report(&memory)).c_str());
    return 0;
}
