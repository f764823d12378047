// Test bench of the vector side: random lists of its commands, with a MAC command now and then, in both schedules, against
// plain loops.
//
//     tb [PROGRAMS [SEED]]       so many lists of one to five commands, from that seed on
#include <cstdio>
#include <cstdlib>

#include "../cpu.hpp"
#include "../memory_ports.hpp"
#include "tb/lists.hpp"

namespace {

using namespace bench;

void run_hardware(const list& l, std::vector<line_t>& maps, std::vector<line_t> parameters) {
    std::vector<line_t> lines = l.lines();
    engine::memory_ports ports(lines.data(), parameters.data(), maps.data());
    ports.bind(lines.size(), parameters.size(), maps.size());
    ports.run(static_cast<uint32_t>(l.size()));
}

// Runs a list in both schedules; a sentence about what is wrong.
std::string check(list& l, random_source& random) {
    std::vector<line_t> hardware = l.maps.lines(), cpu = l.maps.lines(), expected = l.maps.lines();
    std::memset(static_cast<void*>(expected.data()), 0, sizeof(line_t));  // the status record
    try {
        sim::fibers().shuffle(random.chance(0.5) ? 0 : static_cast<uint64_t>(random.integer(1, 1 << 30)));
        run_hardware(l, hardware, l.parameters.lines());
    } catch (const sim::error& e) {
        return std::string("hardware schedule: ") + e.what();
    }
    l.reference(expected);
    std::string wrong = l.difference(hardware, expected);
    if (!wrong.empty()) return "hardware schedule: " + wrong;
    l.run_cpu(cpu, static_cast<uint32_t>(random.pick({1, 1, 2, 3})));
    std::memset(static_cast<void*>(cpu.data()), 0, sizeof(line_t));
    wrong = l.difference(cpu, expected);
    return wrong.empty() ? "" : "CPU schedule: " + wrong;
}

}  // namespace

int main(int argc, char** argv) {
    const int lists = argc > 1 ? std::atoi(argv[1]) : 300;
    const int seed = argc > 2 ? std::atoi(argv[2]) : 1;
    int failures = 0, commands = 0;
    for (int i = 0; i < lists; i++) {
        random_source random(static_cast<uint64_t>(seed + i));
        list l(static_cast<uint64_t>(seed + i));
        const int count = random.integer(1, 5);
        for (int k = 0; k < count; k++) l.add_random(random);
        commands += l.size();
        const std::string wrong = check(l, random);
        if (wrong.empty()) continue;
        failures++;
        std::printf("vector: list %d: %s\n", seed + i, wrong.c_str());
        if (failures == 10) break;
    }
    std::printf("vector %d lanes: %d cases, %d failures; %d commands\n", engine::VECTOR_LANES, lists, failures,
                commands);
    return failures != 0;
}
