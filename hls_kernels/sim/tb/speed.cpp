// How fast the simulator is: a chain of processes, in millions of reads and writes of streams a second of CPU time.
//     speed [elements]
#include <cstdlib>
#include <ctime>

#include "sim/tb/check.hpp"

struct beat_t {
    int words[16];
};

template <class T, int DEPTH>
void produce(hls::stream<T, DEPTH>& out, int n) {
    PIPELINED(send)
    for (int i = 0; i < n; i++) {
        ITERATION(send);
        out.write(T());
    }
}
template <class T, int DEPTH>
void pass(hls::stream<T, DEPTH>& in, hls::stream<T, DEPTH>& out, int n) {
    PIPELINED(load_beats)
    for (int i = 0; i < n; i++) {
        ITERATION(load_beats);
        out.write(in.read());
    }
}
template <class T, int DEPTH>
void consume(hls::stream<T, DEPTH>& in, int n) {
    PIPELINED(receive)
    for (int i = 0; i < n; i++) {
        ITERATION(receive);
        in.read();
    }
}

template <class T, int DEPTH>
void measure(const char* what, int n) {
    sim::restart();
    const std::clock_t began = std::clock();
    const uint64_t switches = sim::fibers().switches();
    {
        hls::stream<T, DEPTH> a("a"), b("b"), c("c");
        DATAFLOW_BEGIN(chain);
        PROCESS(chain, produce(a, n));
        PROCESS(chain, pass(a, b, n));
        PROCESS(chain, pass(b, c, n));
        PROCESS(chain, consume(c, n));
    }
    const double seconds = static_cast<double>(std::clock() - began) / CLOCKS_PER_SEC;
    const double accesses = 6.0 * n;
    std::printf("%s, depth %d: %.1f M accesses/s, %.2f switches an access\n", what, DEPTH, accesses / seconds / 1e6,
                static_cast<double>(sim::fibers().switches() - switches) / accesses);
    // The first element goes through depths of 5, 3 and 3 cycles, the last one through the sink's 3 as well.
    bench::equal(what, sim::take_report().cycles, sim::COUNTING ? 5 + 3 + 3 + n - 1 + 3 : 0);
}

int main(int argc, char** argv) {
    const int n = argc > 1 ? std::atoi(argv[1]) : 2000000;
    measure<int, 2>("words", n);
    measure<int, 64>("words", n);
    measure<beat_t, 2>("beats", n);
    measure<beat_t, 64>("beats", n);
    return bench::done();
}
