// Counts the cycles of networks on an engine: `count [NETWORK]`. For counting builds (FPGA_COUNT_CYCLES=1).
#include <cstdio>
#include <cstring>
#include <stdexcept>

#include "../memory_ports.hpp"
#include "network.hpp"

namespace {

using namespace bench;

void count(const network& n) {
    std::vector<engine::line_t> list(n.commands.size() * 4), maps(n.maps + 1), weights(n.weights + 1);
    for (std::size_t i = 0; i < n.commands.size(); i++)
        std::memcpy(static_cast<void*>(&list[4 * i]), &n.commands[i], sizeof(mac_command));
    sim::memory memory;
    sim::bank* bank = memory.add(std::make_unique<sim::ideal_bank>("DDR", 100));
    engine::memory_ports ports(list.data(), weights.data(), maps.data());
    ports.bind(list.size(), weights.size(), maps.size(), &memory, bank, {0, 2ull << 30, 1ull << 30});
    sim::restart();
    ports.run(static_cast<uint32_t>(n.commands.size()));
    const sim::report r = sim::take_report(&memory);
    double macs = 0;
    const sim::process_count* mac = r.process("mac_array");
    sim::cycle_t before = 0;
    std::printf("%-12s %7s %8s %6s  %5s %4s %5s %5s  %s\n", "command", "cycles", "steps", "array", "bands", "sets",
                "order", "tiles", "stalls of the array");
    for (const sim::command_count& c : mac->commands) {
        if (c.index < 0) continue;
        const mac_command& m = n.commands[static_cast<std::size_t>(c.index)];
        const engine::plan_t p = engine::plan_of(m);
        engine::job_t job{m, p, true, false, false};
        double steps = 0;
        for (int b = 0; b < p.bands; b++) steps += double(engine::band_of(job, b).groups) * p.steps * p.tiles;
        const named_command& name = n.names[static_cast<std::size_t>(c.index)];
        macs += name.macs;
        const double cycles = double(c.last - before);
        std::printf("%-12s %7.0f %8.0f %5.1f%%  %5d %4d %5d %5d ", name.name.c_str(), cycles, steps,
                    100 * name.macs / (cycles * engine::P * engine::OC * engine::IC), p.bands, p.sets, m.order,
                    m.set_tiles);
        for (const sim::stall_count& s : c.stalls)
            if (s.cycles > cycles / 50)
                std::printf(" %s %llu", s.cause.c_str(), static_cast<unsigned long long>(s.cycles));
        std::printf("\n");
        before = c.last;
    }
    std::printf("%s on %dx%dx%d: %llu cycles, %.2f ms at 300 MHz, array %.1f %%\n", n.name.c_str(), engine::P,
                engine::OC, engine::IC, static_cast<unsigned long long>(r.cycles), double(r.cycles) / 300e3,
                100 * macs / (double(r.cycles) * engine::P * engine::OC * engine::IC));
    for (const sim::process_count& p : r.processes) {
        std::printf("  %-14s busy %9llu", p.process.c_str(), static_cast<unsigned long long>(p.busy()));
        for (const sim::stall_count& s : p.stalls())
            if (s.cycles > r.cycles / 100)
                std::printf("  %s %llu", s.cause.c_str(), static_cast<unsigned long long>(s.cycles));
        std::printf("\n");
    }
    for (const sim::port_count& p : r.ports)
        std::printf("  %-9s %-5s %9llu beats, mean burst %.1f, latency %.0f\n", p.port.c_str(),
                    p.write ? "write" : "read", static_cast<unsigned long long>(p.beats), p.mean_burst(),
                    p.bursts ? double(p.latency) / double(p.bursts) : 0.0);
}

}  // namespace

int main(int argc, char** argv) {
    const std::string only = argc > 1 ? argv[1] : "";
    if (only.empty() || only == "resnet18") count(resnet("resnet18", {2, 2, 2, 2}, false));
    if (only.empty() || only == "resnet50") count(resnet("resnet50", {3, 4, 6, 3}, true));
    return 0;
}
