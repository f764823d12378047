// Streams, blocks and loops, in cases whose cycles can be told by hand. Compiled without counting, it holds the values alone.
#include <numeric>
#include <vector>

#include "sim/tb/check.hpp"

using namespace bench;

// ---- a sender and a receiver ---------------------------------------------------------------------------------------
template <int DEPTH>
void send(hls::stream<int, DEPTH>& out, int n) {
    PIPELINED(send)
    for (int i = 0; i < n; i++) {
        ITERATION(send);
        out.write(i);
    }
}
template <int DEPTH>
void send_slowly(hls::stream<int, DEPTH>& out, int n) {
    PIPELINED(send_slowly)
    for (int i = 0; i < n; i++) {
        ITERATION(send_slowly);
        out.write(i);
    }
}
template <int DEPTH>
void receive(hls::stream<int, DEPTH>& in, int n, std::vector<int>& got) {
    PIPELINED(receive)
    for (int i = 0; i < n; i++) {
        ITERATION(receive);
        got.push_back(in.read());
    }
}
template <int DEPTH>
void receive_slowly(hls::stream<int, DEPTH>& in, int n, std::vector<int>& got) {
    PIPELINED(receive_slowly)
    for (int i = 0; i < n; i++) {
        ITERATION(receive_slowly);
        got.push_back(in.read());
    }
}

template <int DEPTH>
sim::report pair(bool slow_sender, bool slow_receiver, int n) {
    sim::restart();
    std::vector<int> got, want(n);
    std::iota(want.begin(), want.end(), 0);
    hls::stream<int, DEPTH> s("s");
    {
        DATAFLOW_BEGIN(pair);
        if (slow_sender) {
            PROCESS(pair, send_slowly(s, n));
        } else {
            PROCESS(pair, send(s, n));
        }
        if (slow_receiver) {
            PROCESS(pair, receive_slowly(s, n, got));
        } else {
            PROCESS(pair, receive(s, n, got));
        }
    }
    holds("what was sent arrives in order", got == want);
    equal("elements moved", s.channel().moved(), n);
    return sim::take_report();
}

// The first element is written in cycle 4 (depth 5), read in cycle 5; from then on the slowest sets the pace, and a stream
// of one place gives at most every second cycle. The sender's last element is written a cycle after the place is free.
template <int DEPTH>
void pairs(int n) {
    for (const bool slow_sender : {false, true})
        for (const bool slow_receiver : {false, true}) {
            const sim::report r = pair<DEPTH>(slow_sender, slow_receiver, n);
            if (!sim::COUNTING) continue;
            const int own = slow_sender ? 3 : 1, other = slow_receiver ? 4 : 1;
            const int pace = std::max({own, other, DEPTH == 1 ? 2 : 1});
            const std::string what = "depth " + std::to_string(DEPTH) + ", II " + std::to_string(own) + " to " +
                                     std::to_string(other) + ", " + std::to_string(n) + " elements: ";
            equal(what + "cycles", r.cycles, 5 + (n - 1) * pace + 3);
            const sim::process_count& sender = *r.process(slow_sender ? "send_slowly" : "send");
            const sim::process_count& receiver = *r.process(slow_receiver ? "receive_slowly" : "receive");
            const int unhindered = (n - 1) * own + 5;
            const int freed = n > DEPTH ? 5 + (n - 1 - DEPTH) * pace + 1 : 0;  // when the last place becomes free
            equal(what + "sender's end", sender.last, std::max(unhindered, freed + 1));
            equal(what + "sender's own cycles", sender.busy(), unhindered);
            equal(what + "stream full", stalled(r, sender.process, "'s' full"), std::max(0, freed + 1 - unhindered));
            equal(what + "receiver's own cycles", receiver.busy(), (n - 1) * other + 3);
            equal(what + "stream empty", stalled(r, receiver.process, "'s' empty"), 5 + (n - 1) * (pace - other));
        }
}

// ---- sequential code -------------------------------------------------------------------------------------------------
void talk(hls::stream<int>& out) {
    out.write(1);
    CYCLES(think);
    out.write(2);
}
void listen(hls::stream<int>& in, int& sum) {
    sum = in.read();
    sum += in.read();
}
void sequential() {
    sim::restart();
    int sum = 0;
    hls::stream<int> s("s");
    {
        DATAFLOW_BEGIN(sequence);
        PROCESS(sequence, talk(s));
        PROCESS(sequence, listen(s, sum));
    }
    equal("sum", sum, 3);
    const sim::report r = sim::take_report();
    if (!sim::COUNTING) return;
    equal("sequential writer", r.process("talk")->last, 1 + 7 + 1);
    equal("sequential reader", r.process("listen")->last, 8 + 1 + 1);  // written in 8, read in 9
}

// ---- an array between two processes ----------------------------------------------------------------------------------
void in_turn() {
    sim::restart();
    int table = 0, sum = 0;
    hls::stream<int> s("s");
    {
        DATAFLOW_BEGIN(turns);
        PROCESS(turns, talk(s));
        turns_region.run("fill", [&] { listen(s, table); }, {sim::array_name(table, "table")});
        turns_region.run("drain",
                         [&] {
                             sum = 2 * table;
                             sim::take_cycles({"drain", 4});
                         },
                         {sim::array_name(table, "table"), sim::array_name(s, "s")});
    }
    equal("sum in turn", sum, 6);
    equal("a stream is no array", sim::array_name(s, "s"), static_cast<const char*>(nullptr));
    const sim::report r = sim::take_report();
    if (!sim::COUNTING) return;
    equal("fill starts with the region", r.process("fill")->first, 0);
    equal("drain starts when fill has ended", r.process("drain")->first, r.process("fill")->last);
    equal("drain ends", r.process("drain")->last, r.process("fill")->last + 4);
}

// ---- a diamond: two ways from fork to join, one of which holds everything back ---------------------------------------
const int BRANCH = 16;
template <int DEPTH>
void fork(hls::stream<int>& slow, hls::stream<int, DEPTH>& fast) {
    PIPELINED(fork)
    for (int i = 0; i < BRANCH; i++) {
        ITERATION(fork);
        slow.write(i);
        fast.write(i);
    }
}
void gather(hls::stream<int>& in, hls::stream<int>& out) {
    int all[BRANCH];
    PIPELINED(gather)
    for (int i = 0; i < 2 * BRANCH; i++) {
        ITERATION(gather);
        if (i < BRANCH) all[i] = in.read();
        if (i >= BRANCH) out.write(all[i - BRANCH]);
    }
}
template <int DEPTH>
void join(hls::stream<int>& slow, hls::stream<int, DEPTH>& fast, int& wrong) {
    PIPELINED(join)
    for (int i = 0; i < BRANCH; i++) {
        ITERATION(join);
        wrong += slow.read() != fast.read();
    }
}
template <int DEPTH>
std::string diamond() {
    hls::stream<int> to_slow("to_slow"), slow("slow");
    hls::stream<int, DEPTH> fast("fast");
    int wrong = 0;
    const std::string error = error_of([&] {
        DATAFLOW_BEGIN(diamond);
        PROCESS(diamond, fork(to_slow, fast));
        PROCESS(diamond, gather(to_slow, slow));
        PROCESS(diamond, join(slow, fast, wrong));
    });
    equal("diamond: wrong values", wrong, 0);
    return error;
}

// ---- blocks ----------------------------------------------------------------------------------------------------------
typedef int block_t[8];
void fill_blocks(hls::stream_of_blocks<block_t>& blocks, int n) {
    for (int b = 0; b < n; b++) {
        hls::write_lock<block_t> lock(blocks);
        block_t& block = lock;
        PIPELINED(fill_block)
        for (int i = 0; i < 8; i++) {
            ITERATION(fill_block);
            block[i] = b * 8 + i;
        }
    }
}
void use_blocks(hls::stream_of_blocks<block_t>& blocks, int n, int& wrong) {
    for (int b = 0; b < n; b++) {
        hls::read_lock<block_t> lock(blocks);
        block_t& block = lock;
        PIPELINED(use_block)
        for (int i = 0; i < 8; i++) {
            ITERATION(use_block);
            wrong += block[i] != b * 8 + i;
        }
    }
}
void blocks() {
    for (const int n : {1, 2, 3, 10}) {
        sim::restart();
        int wrong = 0;
        hls::stream_of_blocks<block_t> memory("memory");
        {
            DATAFLOW_BEGIN(ping_pong);
            PROCESS(ping_pong, fill_blocks(memory, n));
            PROCESS(ping_pong, use_blocks(memory, n, wrong));
        }
        equal("blocks: wrong values", wrong, 0);
        const sim::report r = sim::take_report();
        if (!sim::COUNTING) continue;
        const int fill = 1 + (7 + 4) + 1, use = 1 + (7 * 2 + 6) + 1;  // acquire, loop, release
        const std::string what = std::to_string(n) + " blocks: ";
        // The reader is the slower one, and starts when the first block has been filled.
        equal(what + "reader's end", r.process("use_blocks")->last, fill + n * use);
        // The writer's block n is free when the reader has released block n - 2.
        equal(what + "writer's end", r.process("fill_blocks")->last, n <= 2 ? n * fill : fill + (n - 2) * use + fill);
    }
}

// ---- mistakes --------------------------------------------------------------------------------------------------------
void twice(hls::stream<int>& in, int& sum) {
    PIPELINED(twice)
    for (int i = 0; i < 2; i++) {
        ITERATION(twice);
        sum += in.read();
        sum += in.read();
    }
}
void fail(hls::stream<int>&) { throw sim::error("of its own accord"); }
void outer(hls::stream<int>& in, std::vector<int>& got) {
    PIPELINED(outer)
    for (int i = 0; i < 2; i++) {
        ITERATION(outer);
        receive(in, 2, got);
    }
}
void mistakes() {
    std::vector<int> got;
    int sum = 0;
    says("a reader that gives up early", error_of([&] {
             hls::stream<int> s("s");
             DATAFLOW_BEGIN(early);
             PROCESS(early, send(s, 10));
             PROCESS(early, receive(s, 5, got));
         }),
         "send waits to write 's', which is full (depth 2, read by receive, which has ended)");
    says("a stream with two readers", error_of([&] {
             hls::stream<int> s("s");
             DATAFLOW_BEGIN(two);
             PROCESS(two, receive(s, 5, got));
             PROCESS(two, receive_slowly(s, 5, got));
         }),
         "'s' is read by two processes, 'receive' and 'receive_slowly'");
    says("a first process that fails at once", error_of([&] {
             hls::stream<int> s("s"), t("t");
             DATAFLOW_BEGIN(at_once);
             PROCESS(at_once, fail(s));
             PROCESS(at_once, send(s, 10));
             PROCESS(at_once, receive(t, 5, got));
         }),
         "of its own accord");
    says("a stream without a reader", error_of([&] {
             hls::stream<int> s("s");
             for (int i = 0; i < 3; i++) s.write(i);
         }),
         "main waits to write 's', which is full (depth 2, read by nobody so far)");
    if (sim::COUNTING) {
        says("two reads at II = 1", error_of([&] {
                 hls::stream<int> s("s");
                 DATAFLOW_BEGIN(two);
                 PROCESS(two, send(s, 4));
                 PROCESS(two, twice(s, sum));
             }),
             "twice: loop 'twice' has II = 1, but reads 's' more often in an iteration");
        says("a loop in a loop", error_of([&] {
                 hls::stream<int> s("s");
                 DATAFLOW_BEGIN(nested);
                 PROCESS(nested, send(s, 4));
                 PROCESS(nested, outer(s, got));
             }),
             "outer: the pipelined loop 'receive' lies in the pipelined loop 'outer'");
    }
    // After a mistake the thread is as before.
    equal("sent after mistakes", pair<2>(false, false, 5).processes.size(), sim::COUNTING ? 2u : 0u);
}

int main() {
    for (const int n : {1, 2, 3, 1000}) {
        pairs<1>(n);
        pairs<2>(n);
        pairs<3>(n);
        pairs<64>(n);
    }
    sequential();
    in_turn();
    equal("deep diamond", diamond<BRANCH>(), std::string());
    // The writes of a cycle wait for each other. Without cycles, the last element has gone one way when the other is full.
    says("shallow diamond", diamond<BRANCH - (sim::COUNTING ? 1 : 2)>(), "fork waits to write 'fast', which is full");
    blocks();
    mistakes();
    return done();
}
