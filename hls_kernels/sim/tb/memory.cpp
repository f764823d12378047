// What the memory model makes of access patterns that have been measured on cards: a line for each, its name and a figure in
// gigabytes a second or nanoseconds. tests/hls_kernels/test_memory.py holds them against the publications.
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "memory_generated.hpp"
#include "sim/tb/check.hpp"

using namespace bench;

static void told(const std::string& what, double figure) { std::printf("%s %.3f\n", what.c_str(), figure); }

// ---- at the controller's port, as Shuhai measures --------------------------------------------------------------------
struct direct {
    static constexpr uint32_t KHZ = 1000000;  // a cycle is a nanosecond
    sim::dram_settings settings;
    sim::dram_bank bank;
    sim::port_link link;
    static sim::dram_settings without_path(sim::dram_settings s) {
        s.path = 0;
        return s;
    }
    explicit direct(const sim::dram_settings& s) : settings(without_path(s)), bank("bank", settings, KHZ) {}
    // When the data of `bytes` bytes is there.
    sim::cycle_t read(uint64_t address, uint32_t bytes, sim::cycle_t at) {
        const uint32_t beats = bytes / settings.link_bytes;
        std::vector<sim::cycle_t> arrivals(beats);
        bank.read({address, beats, settings.link_bytes, at, link}, arrivals.data());
        return arrivals.back();
    }
};

static void latencies(const std::string& kind, const sim::dram_settings& s) {
    direct d(s);
    const uint32_t bytes = s.link_bytes;
    const uint64_t other_row = uint64_t{1} << 24;  // above all bits of groups, banks and columns
    told(kind + "_latency_closed", static_cast<double>(d.read(0, bytes, 1000)) - 1000);
    told(kind + "_latency_hit", static_cast<double>(d.read(0, bytes, 1500)) - 1500);
    told(kind + "_latency_miss", static_cast<double>(d.read(other_row, bytes, 2000)) - 2000);
}
// Bursts of B bytes at strides of S bytes within W bytes; the addresses are there from the beginning on.
static double strided(const sim::dram_settings& s, uint32_t burst, uint64_t stride, uint64_t window, int bursts) {
    direct d(s);
    sim::cycle_t end = 0;
    for (int i = 0; i < bursts; i++) end = d.read(static_cast<uint64_t>(i) * stride % window, burst, 0);
    return static_cast<double>(burst) * bursts / static_cast<double>(end);
}

// ---- from a kernel ---------------------------------------------------------------------------------------------------
struct beat_t {
    uint8_t bytes[64];
};
static const uint64_t ELEMENTS = uint64_t{1} << 22;  // 256 MiB, a pseudo channel's
static const uint64_t SPAN = ELEMENTS * sizeof(beat_t);

static void sequential_reads(hls::burst_maxi<beat_t> in, int n, int length) {
    for (int i = 0; i < n; i += length) in.read_request(i, length);
    PIPELINED(load_beats)
    for (int i = 0; i < n; i++) {
        ITERATION(load_beats);
        in.read();
    }
}
static void sequential_writes(hls::burst_maxi<beat_t> out, int n, int length) {
    for (int i = 0; i < n; i += length) out.write_request(i, length);
    PIPELINED(store_beats)
    for (int i = 0; i < n; i++) {
        ITERATION(store_beats);
        out.write(beat_t());
    }
    for (int i = 0; i < n; i += length) out.write_response();
}
// The loop of AMD's measurement: a transaction takes as many cycles as it has beats, and two more.
static void random_reads(hls::burst_maxi<beat_t> in, int n, int length) {
    const sim::loop_contract contract{"random", static_cast<uint32_t>(length + 2), 8};
    std::mt19937 random(1);
    const int ahead = 128;
    const auto request = [&] { in.read_request(random() % (ELEMENTS / length) * length, length); };
    for (int i = 0; i < ahead; i++) request();
    sim::loop loop(contract);
    for (int i = 0; i < n; i++) {
        loop.iterate();
        if (i + ahead < n) request();
        for (int k = 0; k < length; k++) in.read();
    }
}

struct run {
    // The memory of one bank alone; the data is never looked at, and one element stands for all.
    sim::memory memory;
    sim::bank* bank;
    std::vector<std::unique_ptr<hls::burst_maxi<beat_t>>> ports;
    std::vector<beat_t> data;

    explicit run(const sim::dram_settings& s) : data(ELEMENTS) {
        sim::restart();
        bank = memory.add(std::make_unique<sim::dram_bank>("bank", s, sim::platform::kernel_khz));
    }
    hls::burst_maxi<beat_t>& port(const std::string& name, uint64_t address, uint32_t outstanding = 16) {
        ports.push_back(std::make_unique<hls::burst_maxi<beat_t>>(data.data()));
        sim::bind(*ports.back(), {name, ELEMENTS, address, 64, outstanding}, &memory, bank);
        return *ports.back();
    }
    double gbps(uint64_t beats) {
        const sim::report r = sim::take_report(&memory);
        return static_cast<double>(beats * sizeof(beat_t)) * sim::platform::kernel_khz / static_cast<double>(r.cycles) /
               1e6;
    }
};

static void kernels(const std::string& kind, const sim::dram_settings& s) {
    const int n = 1 << 16;
    for (const int length : {1, 16, 64}) {
        run r(s);
        {
            DATAFLOW_BEGIN(reads);
            PROCESS(reads, sequential_reads(r.port("in", 0), n, length));
        }
        told(kind + "_kernel_read_" + std::to_string(length), r.gbps(n));
    }
    {
        run r(s);
        {
            DATAFLOW_BEGIN(writes);
            PROCESS(writes, sequential_writes(r.port("out", 0), n, 64));
        }
        told(kind + "_kernel_write_64", r.gbps(n));
    }
    for (const int length : {16, 64}) {  // both at once, from and to different places of one bank
        run r(s);
        {
            DATAFLOW_BEGIN(both);
            PROCESS(both, sequential_reads(r.port("in", 0), n, length));
            PROCESS(both, sequential_writes(r.port("out", SPAN / 2 + 4096), n, length));
        }
        told(kind + "_kernel_mixed_" + std::to_string(length), r.gbps(2 * n));
    }
    for (const int length : {1, 2, 4, 8, 16}) {
        run r(s);
        {
            DATAFLOW_BEGIN(random);
            PROCESS(random, random_reads(r.port("in", 0, 128), n / 8, length));
        }
        told(kind + "_kernel_random_" + std::to_string(64 * length), r.gbps(uint64_t(n / 8) * length));
    }
}

int main() {
    const uint64_t MIB = 1 << 20;
    latencies("ddr4", sim::platform::ddr4);
    told("ddr4_sequential", strided(sim::platform::ddr4, 64, 64, 256 * MIB, 200000));
    kernels("ddr4", sim::platform::ddr4);
    latencies("hbm", sim::platform::hbm);
    told("hbm_sequential", strided(sim::platform::hbm, 32, 32, 256 * MIB, 200000));
    told("hbm_4k_stride_in_8k", strided(sim::platform::hbm, 32, 4096, 8192, 200000));
    told("hbm_4k_stride_in_256m", strided(sim::platform::hbm, 32, 4096, 256 * MIB, 200000));
    kernels("hbm", sim::platform::hbm);
}
