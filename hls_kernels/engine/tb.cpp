// Test bench of the engine: random programs of random layers, in both schedules, against plain loops.
//
//     tb [PROGRAMS [SEED]]       so many programs of one to five layers, from that seed on
#include <cstdio>
#include <cstdlib>

#include "cpu.hpp"
#include "memory_ports.hpp"
#include "tb/random_layers.hpp"

namespace {

using namespace bench;

// The commands of a program as they lie in memory.
std::vector<line_t> list_of(const std::vector<mac_command>& commands) {
    std::vector<line_t> lines(commands.size() * 4, line_t());
    for (std::size_t i = 0; i < commands.size(); i++)
        std::memcpy(static_cast<void*>(&lines[4 * i]), &commands[i], sizeof(mac_command));
    return lines;
}

void run_hardware(const program& p, std::vector<line_t>& maps, std::vector<line_t> parameters) {
    std::vector<line_t> list = list_of(p.commands);
    engine::memory_ports ports(list.data(), parameters.data(), maps.data());
    ports.bind(list.size(), parameters.size(), maps.size());
    ports.run(static_cast<uint32_t>(p.commands.size()));
}

void run_cpu(const program& p, std::vector<line_t>& maps, const std::vector<line_t>& parameters, uint32_t slices) {
    for (const mac_command& c : p.commands)
        for (uint32_t slice = 0; slice < slices; slice++)
            engine::cpu_mac(c, maps.data(), parameters.data()).run(slice, slices);
    std::memset(static_cast<void*>(maps.data()), 0, sizeof(line_t));  // the status record, which the list writes
}

// Runs a program in both schedules; a sentence about what is wrong.
std::string check(program& p, random_source& random) {
    if (!p.wrongly_refused().empty()) return "refused: " + p.wrongly_refused();
    for (const mac_command& c : p.commands)
        if (const char* why = engine::refusal(c)) return std::string("a command ") + why;
    std::vector<line_t> hardware = p.maps.lines(), cpu = p.maps.lines();
    try {
        sim::fibers().shuffle(random.chance(0.5) ? 0 : static_cast<uint64_t>(random.integer(1, 1 << 30)));
        run_hardware(p, hardware, p.parameters.lines());
    } catch (const sim::error& e) {
        return std::string("hardware schedule: ") + e.what();
    }
    std::string wrong = p.differences(hardware);
    if (!wrong.empty()) return "hardware schedule: " + wrong;
    run_cpu(p, cpu, p.parameters.lines(), static_cast<uint32_t>(random.pick({1, 1, 2, 3})));
    std::size_t same = 0;
    while (same < cpu.size() && std::memcmp(&hardware[same], &cpu[same], sizeof(line_t)) == 0) same++;
    if (same == cpu.size()) return "";
    wrong = p.differences(cpu);
    if (!wrong.empty()) return "CPU schedule: " + wrong;
    if (engine::ELEMENT != engine::ELEMENT_INT8 && !p.exact) return "";
    return "the schedules differ in line " + std::to_string(same);
}

}  // namespace

int main(int argc, char** argv) {
    const int programs = argc > 1 ? std::atoi(argv[1]) : 300;
    const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
    int failures = 0, layers = 0, refused = 0, commands = 0;
    for (int i = 0; i < programs && failures < 10; i++) {
        random_source random(static_cast<uint64_t>(seed + i));
        program p(static_cast<uint64_t>(seed + i));
        std::vector<tensor> tensors;
        tensors.reserve(64);
#if ENGINE_FUNCTIONS
        if (i == 0) add_every_number(p, random);
#endif
        const int count = i == 0 && engine::FUNCTIONS ? 0 : random.integer(1, 5);
        for (int k = 0; k < count; k++)
            (random.chance(0.12) ? add_attention(p, random) : add_random(p, tensors, random)) ? layers++ : refused++;
        if (p.commands.empty() && p.wrongly_refused().empty()) continue;
        commands += p.next();
        const std::string wrong = check(p, random);
        if (wrong.empty()) continue;
        failures++;
        std::printf("engine: program %d: %s\n", seed + i, wrong.c_str());
    }
    std::printf("engine %dx%dx%d: %d cases, %d failures; %d commands of %d layers, %d refused\n", engine::P, engine::OC,
                engine::IC, programs, failures, commands, layers, refused);
    return failures != 0;
}
