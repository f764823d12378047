// A pipelined loop in the time of its process.
//
// Iteration i starts `ii` cycles after the one before. All reads of an iteration happen in its first cycle, all writes in its
// last one, start + depth - 1. A read that has to wait holds the start back, while earlier iterations go on (a flushable
// pipeline). A write that has to wait stops the whole pipeline: what lies behind that cycle moves, but not the reads of later
// iterations that start before it. Reads of one cycle wait for each other, and so do writes: one stage has one enable.
#pragma once
#include <cstdint>
#include <exception>
#include <string>
#include <vector>

#include "channel.hpp"

namespace sim {

// What a loop, or a piece of sequential code, is expected to take: from a core's qor.toml.
struct loop_contract {
    const char* label;
    uint32_t ii, depth;
};
struct code_contract {
    const char* label;
    uint32_t cycles;
};

class loop {
public:
    explicit loop(const loop_contract& contract)
        : contract_(contract), me_(self()), start_(me_.now), alive_(std::uncaught_exceptions()) {
        if (me_.in_loop)
            throw error(me_.name() + ": the pipelined loop '" + contract.label + "' lies in the pipelined loop '" +
                        me_.in_loop->contract_.label + "', which would unroll it.");
        me_.in_loop = this;
    }
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;
    ~loop() noexcept(false) {
        me_.in_loop = nullptr;
        if (std::uncaught_exceptions() > alive_) return;
        end_iteration();
        const cycle_t began = me_.now;
        // The loop's test takes a cycle even if it has nothing to do.
        me_.now = iterations_ ? start_ + contract_.depth + stopped_ : began + 1;
        loop_count& counter = me_.loop_counter(contract_.label);
        counter.runs++;
        counter.iterations += iterations_;
        counter.cycles += me_.now - began;
    }

    // Called first thing in each iteration.
    void iterate() {
        if (iterations_++ == 0) return;
        end_iteration();
        start_ += contract_.ii;
        if (!stops_.empty()) pass_stops();
    }
    cycle_t start() const { return start_ + passed_; }
    // The cycle of writes, as far as it is known.
    cycle_t end() const { return start_ + contract_.depth - 1 + stopped_; }

    // The iteration cannot start before `cycle`, because of `thing`.
    void hold_until(cycle_t cycle, const stall_cause& thing, int why) {
        if (cycle > start()) hold(cycle, thing, why);
    }
    // The iteration's last cycle cannot be before `cycle`.
    void stop_until(cycle_t cycle, const stall_cause& thing, int why) {
        if (cycle > end()) stop(cycle, thing, why);
    }
    void read(channel& c, uint32_t at) {
        hold_until(c.stamp(at), c, channel::EMPTY);
        reads_.add(*this, c, at);
    }
    void write(channel& c, uint32_t at) {
        // In a loop of one state reads and writes are in the same cycle, and wait for each other.
        if (reads_.size && contract_.depth > 1) end_reads();
        writes_.add(*this, c, at);
    }

private:
    struct access {
        channel* where;
        uint32_t at;
    };
    struct accesses {
        enum { MOST = 32 };
        access all[MOST];
        uint32_t size = 0;
        void add(const loop& l, channel& c, uint32_t at) {
            if (__builtin_expect(size == MOST, 0))
                throw error(l.me_.name() + ": loop '" + l.contract_.label + "' uses streams more than " +
                            std::to_string(MOST) + " times in an iteration.");
            all[size++] = {&c, at};
        }
        const access* begin() const { return all; }
        const access* end() const { return all + size; }
    };
    // The pipeline stood still for `cycles` cycles at `at`, a cycle that is counted without such times.
    struct standstill {
        cycle_t at, cycles;
    };

    void end_iteration() {
        if (writes_.size) end_writes();
        if (reads_.size) end_reads();
    }
    void end_reads() {
        const cycle_t cycle = start();
        for (const access& a : reads_) a.where->free(a.at, next_turn(a, cycle + 1, a.where->last_free(), "reads"));
        reads_.size = 0;
    }
    void end_writes() {
        const access* last = nullptr;
        cycle_t cycle = end();
        for (const access& a : writes_)
            if (a.where->stamp(a.at) > cycle) cycle = (last = &a)->where->stamp(a.at);
        if (last) stop(cycle, *last->where, channel::FULL);
        for (const access& a : writes_) a.where->fill(a.at, next_turn(a, cycle + 1, a.where->last_fill(), "writes"));
        writes_.size = 0;
    }
    // A stream has one port for each direction: a second access in an iteration comes a cycle later.
    cycle_t next_turn(const access& a, cycle_t stamp, cycle_t last, const char* what) const {
        if (__builtin_expect(last < stamp, 1)) return stamp;
        if (last + 1 >= stamp + contract_.ii)
            throw error(me_.name() + ": loop '" + contract_.label + "' has II = " + std::to_string(contract_.ii) +
                        ", but " + what + " '" + a.where->name() + "' more often in an iteration.");
        return last + 1;
    }

    // Stops whose cycle the start has passed, or is in, move it.
    void pass_stops() {
        while (!stops_.empty() && stops_.front().at <= start_) pass_stop();
    }
    void pass_stop() {
        passed_ += stops_.front().cycles;
        stops_.erase(stops_.begin());
    }
    __attribute__((noinline)) void hold(cycle_t cycle, const stall_cause& thing, int why) {
        const cycle_t before = start_;
        while (cycle > start()) {
            const cycle_t to = cycle - passed_;
            if (!stops_.empty() && stops_.front().at <= to) {
                if (stops_.front().at > start_) start_ = stops_.front().at;
                pass_stop();
            } else {
                start_ = to;
            }
        }
        if (start_ > before) me_.stalled(thing, why, start_ - before);
    }
    __attribute__((noinline)) void stop(cycle_t cycle, const stall_cause& thing, int why) {
        const cycle_t cycles = cycle - end();
        me_.stalled(thing, why, cycles);
        stops_.push_back({start_ + contract_.depth - 1, cycles});
        stopped_ += cycles;
        pass_stops();
    }

    const loop_contract& contract_;
    process& me_;
    uint64_t iterations_ = 0;
    cycle_t start_;                  // of the iteration, in cycles in which the pipeline moved
    cycle_t passed_ = 0;             // cycles of standstill before the start
    cycle_t stopped_ = 0;            // and before the last stage
    std::vector<standstill> stops_;  // those between the two: at most depth / ii
    accesses reads_, writes_;
    int alive_;
};

}  // namespace sim
