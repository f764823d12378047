// m_axi ports on a bank of known latency, and what they refuse.
#include <cstdint>
#include <memory>
#include <vector>

#include "sim/dram.hpp"
#include "sim/tb/check.hpp"

using namespace bench;

struct beat_t {
    int32_t words[16];
};
typedef hls::stream<beat_t, 4> beats_t;

void load(hls::burst_maxi<beat_t> in, beats_t& out, int from, int n) {
    in.read_request(from, n);
    PIPELINED(load_beats)
    for (int i = 0; i < n; i++) {
        ITERATION(load_beats);
        out.write(in.read());
    }
}
void store(beats_t& in, hls::burst_maxi<beat_t> out, int to, int n) {
    out.write_request(to, n);
    PIPELINED(store_beats)
    for (int i = 0; i < n; i++) {
        ITERATION(store_beats);
        out.write(in.read());
    }
    out.write_response();
}

const int LATENCY = 40, ELEMENTS = 4096;

struct card {
    std::vector<beat_t> source, sink;
    sim::memory memory;
    hls::burst_maxi<beat_t> in, out;

    explicit card(uint32_t reads = 16) : source(ELEMENTS), sink(ELEMENTS), in(source.data()), out(sink.data()) {
        sim::restart();
        for (int i = 0; i < ELEMENTS; i++)
            for (int w = 0; w < 16; w++) source[i].words[w] = i * 16 + w;
        sim::bank* bank = memory.add(std::make_unique<sim::ideal_bank>("bank", LATENCY));
        sim::bind(in, {"gmem0", ELEMENTS, 0, 64, reads}, &memory, bank);
        sim::bind(out, {"gmem1", ELEMENTS, uint64_t{1} << 20, 64, 16}, &memory, bank);
    }
    void copy(int from, int to, int n) {
        beats_t s("s");
        DATAFLOW_BEGIN(copy);
        PROCESS(copy, load(in, s, from, n));
        PROCESS(copy, store(s, out, to, n));
    }
};

void copies() {
    for (const int n : {1, 5, 64, 65, 500}) {
        card c;
        c.copy(7, 100, n);
        int wrong = 0;
        for (int i = 0; i < ELEMENTS; i++)
            for (int w = 0; w < 16; w++)
                wrong += c.sink[i].words[w] != (i >= 100 && i < 100 + n ? (i - 93) * 16 + w : 0);
        equal("wrong words", wrong, 0);
        if (!sim::COUNTING) continue;
        const sim::report r = sim::take_report(&c.memory);
        const std::string what = std::to_string(n) + " beats: ";
        // The address leaves in cycle 0, the first beat is there LATENCY cycles later and the others follow.
        equal(what + "load", r.process("load")->last, LATENCY + n - 1 + 3);
        equal(what + "read stall", stalled(r, "load", "gmem0 read data"), LATENCY - 1);
        // A beat is in the stream 3 cycles after it was read. With the store's depth of 4 it is in the port's buffer 4 cycles
        // after that. Then the last burst leaves, and its response comes after its beats and the latency.
        const int first = 64 - 100 % 64, last = n <= first ? n : (n - first - 1) % 64 + 1;
        const int full = LATENCY + n - 1 + 3 + 4;
        equal(what + "store", r.process("store")->last, full + last + LATENCY + 1);
        equal(what + "response", stalled(r, "store", "gmem1 write response"), last + LATENCY);
        // Beats 7 ... are cut at addresses of 4 KiB, which are 64 beats.
        const sim::port_count& reads = r.ports[0];
        equal(what + "beats", reads.beats, n);
        equal(what + "bytes", reads.bytes, n * 64);
        equal(what + "bursts", reads.bursts, (7 + n - 1) / 64 + 1);
        equal(what + "burst of a page", reads.by_length.size() > 64 ? reads.by_length[64] : 0, n == 500 ? 6 : 0);
        holds(what + "JSON has the port", sim::json::of(r).find("\"port\": \"gmem0\"") != std::string::npos);
    }
}

// With one outstanding read burst of 64 beats each waits until the one before has been used up.
void outstanding() {
    if (!sim::COUNTING) return;
    card c(1);
    c.copy(0, 0, 128);
    const sim::report r = sim::take_report(&c.memory);
    // Beat 63 is used in cycle LATENCY + 63, in which the second address leaves.
    equal("one outstanding burst", r.process("load")->last, LATENCY + 63 + LATENCY + 63 + 3);
}

// A small DRAM of its own: the order in which processes run must not matter to who comes first at it.
const sim::dram_settings DRAM{"g1 c4 b1", 64,     4,       833,   3333,  3333,   5000,  14000,
                              14000,      32000,  15000,   7500,  7500,  3330,   21000, 14167,
                              10000,      350000, 2000000, 73000, 40000, 100000, 64,    300000};

std::string shared(uint64_t order) {
    sim::restart();
    sim::fibers().shuffle(order);
    std::vector<beat_t> data(ELEMENTS);
    sim::memory memory;
    sim::bank* bank = memory.add(std::make_unique<sim::dram_bank>("bank", DRAM, 300000));
    std::vector<hls::burst_maxi<beat_t>> ports;
    for (int i = 0; i < 6; i++) {
        ports.emplace_back(data.data());
        sim::bind(ports.back(), {"gmem" + std::to_string(i), ELEMENTS, uint64_t(i % 3) << 14, 16, 4}, &memory, bank);
    }
    {
        beats_t a("a"), b("b"), c("c");
        DATAFLOW_BEGIN(shared);
        PROCESS(shared, load(ports[0], a, 0, 300));
        PROCESS(shared, load(ports[1], b, 1000, 100));
        PROCESS(shared, load(ports[2], c, 1500, 257));
        PROCESS(shared, store(a, ports[3], 2000, 300));
        PROCESS(shared, store(b, ports[4], 2500, 100));
        PROCESS(shared, store(c, ports[5], 3000, 257));
    }
    sim::fibers().shuffle(0);
    const sim::report r = sim::take_report(&memory);
    if (sim::COUNTING) {
        equal("accesses", r.banks[0].reads + r.banks[0].writes, 2 * (300 + 100 + 257));
        holds("rows are opened, hit and closed",
              r.banks[0].row_misses && r.banks[0].row_hits && r.banks[0].row_conflicts);
        holds("the bus turns round, and refreshes", r.banks[0].turnarounds && r.banks[0].refreshes);
        equal("requests out of their order", r.banks[0].late, 0);
    }
    return sim::json::of(r);
}
void orders() {
    const std::string usual = shared(0);
    for (uint64_t order = 1; order <= 20; order++) equal("another order of processes", shared(order), usual);
}

void twice(hls::burst_maxi<beat_t> in) {
    in.read_request(0, 4);
    PIPELINED(twice)
    for (int i = 0; i < 2; i++) {
        ITERATION(twice);
        in.read();
        in.read();
    }
}

void mistakes() {
    card c;
    beats_t s("s");
    says("a request beyond the end", error_of([&] { c.in.read_request(ELEMENTS - 1, 2); }),
         "main: port 'gmem0' requests elements 4095 to 4097 of 4096");
    says("a request of nothing", error_of([&] { c.in.read_request(0, 0); }), "requests no beats");
    says("a read without a request", error_of([&] { c.in.read(); }),
         "port 'gmem0' reads a beat that it has not requested");
    says("a write without a request", error_of([&] { c.out.write(beat_t()); }),
         "writes a beat that it has not requested");
    says("a response without a request", error_of([&] { c.out.write_response(); }), "has not requested");
    says("a response before the data", error_of([&] {
             c.out.write_request(0, 2);
             c.out.write(beat_t());
             c.out.write_response();
         }),
         "before it has written all beats");
    if (sim::COUNTING) {
        says("two beats in a cycle", error_of([&] {
                 card other;
                 DATAFLOW_BEGIN(two);
                 PROCESS(two, twice(other.in));
             }),
             "port 'gmem0' is used more often in an iteration of loop 'twice' than its II = 1 allows");
        std::vector<beat_t> data(1);
        hls::burst_maxi<beat_t> loose(data.data());
        says("a port without a bank", error_of([&] { loose.read_request(0, 1); }), "has no memory bank");
    }
}

int main() {
    copies();
    outstanding();
    orders();
    mistakes();
    return done();
}
