// Random networks of processes against a second opinion: the same network as registers that a clock advances.
//
// The reference knows nothing of stamps: it holds FIFOs whose flags are registers, and pipelines as shift registers of
// iterations with one enable each, and looks at every cycle. Both must agree on the cycle in which each process ends, and on
// deadlocks, which networks with short FIFOs have in plenty.
//     clocked [networks] [first seed]
#include <cstdlib>
#include <functional>
#include <memory>
#include <random>
#include <vector>

#include "sim/tb/check.hpp"

using namespace bench;

// ---- a network -------------------------------------------------------------------------------------------------------
const int DEPTHS[] = {1, 2, 3, 4, 7, 16};

struct fifo_plan {
    int depth, from, to;
    // Accessed in iterations i with i / block % each == phase, so by `block` iterations in a row.
    struct pattern {
        int block, each, phase;
        bool of(int i) const { return i / block % each == phase; }
    } write, read;
};
struct process_plan {
    int ii, depth, iterations, runs;  // the loop is run several times in a row
    std::vector<int> in, out;
};
struct network {
    std::vector<process_plan> processes;
    std::vector<fifo_plan> fifos;
};

network random_network(std::mt19937& random) {
    const auto any = [&](int low, int high) { return std::uniform_int_distribution<int>(low, high)(random); };
    network n;
    const int processes = any(2, 6);
    for (int p = 0; p < processes; p++)
        n.processes.push_back({any(1, 3) == 1 ? any(1, 5) : 1,
                               any(1, 4) == 1 ? any(8, 20) : any(1, 6),
                               12 * any(1, 3),
                               any(1, 3),
                               {},
                               {}});
    const int elements_of_all = 24 * any(1, 2);
    for (process_plan& p : n.processes) {  // all access their streams in as many iterations
        p.iterations = elements_of_all * any(1, 2);
        p.runs = n.processes[0].runs;
    }
    for (int to = 1; to < processes; to++)
        for (int k = any(1, 2); k--;) {
            const int from = any(0, to - 1), sparse = any(1, 4) == 1 ? 3 : 1;
            const auto pattern = [&](const process_plan& p) {
                const int each = p.iterations / elements_of_all * sparse, block = 1 << any(0, 3);
                return fifo_plan::pattern{p.iterations % (block * each) ? 1 : block, each, any(0, each - 1)};
            };
            const int depth = DEPTHS[any(0, 5)];
            n.processes[from].out.push_back(static_cast<int>(n.fifos.size()));
            n.processes[to].in.push_back(static_cast<int>(n.fifos.size()));
            n.fifos.push_back({depth, from, to, pattern(n.processes[from]), pattern(n.processes[to])});
        }
    return n;
}

// ---- the reference ---------------------------------------------------------------------------------------------------
struct outcome {
    bool deadlock = false;
    std::vector<uint64_t> ends;  // the first cycle after each process' last
    bool operator==(const outcome& o) const { return deadlock == o.deadlock && (deadlock || ends == o.ends); }
};

outcome clocked(const network& n) {
    struct state {
        int run = 0, next = 0;    // the iteration to start next
        int since_start = 0;      // cycles in which the pipeline moved since the last start
        std::vector<int> stages;  // iteration in each stage, or -1
        bool done = false;
    };
    std::vector<state> states;
    for (const process_plan& p : n.processes) {
        state s;
        s.since_start = p.ii;
        s.stages.assign(p.depth, -1);
        states.push_back(s);
    }
    std::vector<int> filled(n.fifos.size(), 0);
    outcome result;
    result.ends.assign(n.processes.size(), 0);
    int idle = 0;
    for (uint64_t cycle = 0; idle < 64; cycle++) {
        std::vector<int> after = filled;
        bool moved = false, all_done = true;
        for (std::size_t i = 0; i < states.size(); i++) {
            const process_plan& p = n.processes[i];
            state& s = states[i];
            if (s.done) continue;
            all_done = false;
            const int last = p.depth - 1;
            // Can an iteration start, seen from the streams that it reads?
            bool starts = s.next < p.iterations && s.since_start >= p.ii;
            for (const int f : p.in)
                if (starts && n.fifos[f].read.of(s.next) && filled[f] == 0) starts = false;
            const int ending = last == 0 ? (starts ? s.next : -1) : s.stages[last];
            bool enable = true;
            for (const int f : p.out)
                if (ending >= 0 && n.fifos[f].write.of(ending) && filled[f] == n.fifos[f].depth) enable = false;
            if (!enable) continue;
            if (starts) {
                for (const int f : p.in)
                    if (n.fifos[f].read.of(s.next)) after[f]--;
                s.stages[0] = s.next++;
                s.since_start = 0;
                moved = true;
            } else {
                s.stages[0] = -1;
            }
            if (ending >= 0) {
                for (const int f : p.out)
                    if (n.fifos[f].write.of(ending)) after[f]++;
                moved = true;
                if (ending == p.iterations - 1) {
                    result.ends[i] = cycle + 1;
                    s.next = 0;
                    s.done = ++s.run == p.runs;
                }
            }
            for (int k = last; k > 0; k--) moved = (s.stages[k] = s.stages[k - 1]) >= 0 || moved;
            s.since_start++;
            if (ending == p.iterations - 1) {
                s.stages.assign(p.depth, -1);
                s.since_start = p.ii;
            }
        }
        if (all_done) return result;
        filled = after;
        idle = moved ? 0 : idle + 1;
    }
    result.deadlock = true;
    return result;
}

// ---- the simulator ---------------------------------------------------------------------------------------------------
struct any_stream {
    std::function<void(int)> write;
    std::function<int()> read;
    std::shared_ptr<void> owner;
};
template <int DEPTH>
any_stream stream_of(const std::string& name) {
    auto s = std::make_shared<hls::stream<int, DEPTH>>(name.c_str());
    return {[p = s.get()](int x) { p->write(x); }, [p = s.get()] { return p->read(); }, s};
}
any_stream stream_of(int depth, const std::string& name) {
    switch (depth) {
        case 1: return stream_of<1>(name);
        case 2: return stream_of<2>(name);
        case 3: return stream_of<3>(name);
        case 4: return stream_of<4>(name);
        case 7: return stream_of<7>(name);
        default: return stream_of<16>(name);
    }
}

void run_process(const network& n, int index, std::vector<any_stream>& streams, int& wrong) {
    const process_plan& p = n.processes[index];
    const sim::loop_contract contract{"random", static_cast<uint32_t>(p.ii), static_cast<uint32_t>(p.depth)};
    std::vector<int> read(n.fifos.size(), 0), written(n.fifos.size(), 0);
    for (int run = 0; run < p.runs; run++) {
        sim::loop loop(contract);
        for (int i = 0; i < p.iterations; i++) {
            loop.iterate();
            for (const int f : p.in)
                if (n.fifos[f].read.of(i)) wrong += streams[f].read() != read[f]++;
            for (const int f : p.out)
                if (n.fifos[f].write.of(i)) streams[f].write(written[f]++);
        }
    }
}

outcome simulated(const network& n, uint64_t shuffle) {
    sim::restart();
    sim::self();
    sim::fibers().shuffle(shuffle);
    std::vector<any_stream> streams;
    for (std::size_t f = 0; f < n.fifos.size(); f++)
        streams.push_back(stream_of(n.fifos[f].depth, "s" + std::to_string(f)));
    int wrong = 0;
    outcome result;
    const std::string error = error_of([&] {
        sim::region region("network");
        for (std::size_t p = 0; p < n.processes.size(); p++)
            region.run(("p" + std::to_string(p)).c_str(),
                       [&, p] { run_process(n, static_cast<int>(p), streams, wrong); });
    });
    sim::fibers().shuffle(0);
    result.deadlock = error.find("deadlock") == 0;
    if (!error.empty() && !result.deadlock) std::puts(error.c_str());
    equal("values that are wrong", wrong, 0);
    const sim::report r = sim::take_report();
    result.ends.assign(n.processes.size(), 0);
    for (const sim::process_count& p : r.processes) result.ends[std::atoi(p.process.c_str() + 1)] = p.last;
    for (const sim::process_count& p : r.processes) {
        sim::cycle_t own = 0;
        const process_plan& plan = n.processes[std::atoi(p.process.c_str() + 1)];
        own = static_cast<sim::cycle_t>(plan.runs) * ((plan.iterations - 1) * plan.ii + plan.depth);
        equal("cycles that are no stall", p.busy(), own);
    }
    return result;
}

std::string told(const network& n) {
    std::ostringstream text;
    for (const process_plan& p : n.processes)
        text << "  process: II " << p.ii << " depth " << p.depth << ", " << p.runs << " x " << p.iterations << '\n';
    for (const fifo_plan& f : n.fifos)
        text << "  stream of " << f.depth << ": p" << f.from << " " << f.write.block << "*" << f.write.phase << "/"
             << f.write.each << " to p" << f.to << " " << f.read.block << "*" << f.read.phase << "/" << f.read.each
             << '\n';
    return text.str();
}

int main(int argc, char** argv) {
    const int networks = argc > 1 ? std::atoi(argv[1]) : 300, first = argc > 2 ? std::atoi(argv[2]) : 1;
    int deadlocks = 0;
    for (int seed = first; seed < first + networks; seed++) {
        std::mt19937 random(static_cast<uint32_t>(seed));
        const network n = random_network(random);
        const outcome want = clocked(n);
        deadlocks += want.deadlock;
        for (const uint64_t shuffle : {0, 1, 2}) {
            const outcome got = simulated(n, shuffle * static_cast<uint64_t>(seed) * 0x9e3779b97f4a7c15);
            cases++;
            if (got == want) continue;
            if (failures++ < 3) {
                std::printf("network %d, order %d: deadlock %d, not %d; ends", seed, static_cast<int>(shuffle),
                            got.deadlock, want.deadlock);
                for (std::size_t p = 0; p < got.ends.size(); p++)
                    std::printf(" %llu(%llu)", static_cast<unsigned long long>(got.ends[p]),
                                static_cast<unsigned long long>(want.ends[p]));
                std::printf("\n%s", told(n).c_str());
            }
            break;
        }
    }
    std::printf("%d of %d networks have a deadlock\n", deadlocks, networks);
    holds("some networks have deadlocks, and some have none",
          deadlocks > networks / 50 && deadlocks < networks * 9 / 10);
    return done();
}
