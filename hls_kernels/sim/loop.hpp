// A pipelined loop in the time of its process.
//
// Iteration i starts `ii` cycles after the one before. All reads of an iteration happen in its first cycle, all writes in its
// last one, start + depth - 1. A read that has to wait holds the start back, while earlier iterations go on (a flushable
// pipeline). A write that has to wait stops the whole pipeline; until that cycle later iterations start, and hold in the
// pipeline what has no place in a stream. Reads of one cycle wait for each other, and so do writes: a stage has one enable.
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
        : contract_(contract),
          me_(self()),
          start_(me_.now),
          in_flight_(me_.in_flight),
          alive_(std::uncaught_exceptions()) {
        if (me_.in_loop)
            throw error(me_.name() + ": the pipelined loop '" + contract.label + "' lies in the pipelined loop '" +
                        me_.in_loop->contract_.label + "', which would unroll it.");
        me_.in_loop = this;
        in_flight_.clear();
    }
    loop(const loop&) = delete;
    loop& operator=(const loop&) = delete;
    ~loop() noexcept(false) {
        if (std::uncaught_exceptions() > alive_) {
            me_.in_loop = nullptr;
            return;
        }
        const leave at_end{me_};
        end_iteration();
        settle(NEVER);
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
        me_.iteration++;
        if (iterations_++ == 0) return;
        end_iteration();
        start_ += contract_.ii;
        if (__builtin_expect(!in_flight_.empty(), 0)) settle(start_);
        if (__builtin_expect(!stops_.empty(), 0)) pass_stops();
    }
    const loop_contract& contract() const { return contract_; }
    // The iteration's first cycle.
    cycle_t start() const { return start_ + passed_; }
    // Its last one, in which it writes; all earlier iterations must have written.
    cycle_t end() {
        settle(NEVER);
        return start_ + contract_.depth - 1 + stopped_;
    }

    // The iteration cannot start before `cycle`, because of `thing`.
    void hold_until(cycle_t cycle, const stall_cause& thing, int why) {
        if (cycle > start()) hold(cycle, thing, why);
    }
    // Its last cycle cannot be before `cycle`.
    void stop_until(cycle_t cycle, const stall_cause& thing, int why) {
        const cycle_t due = end();
        if (cycle > due) stop(start_ + contract_.depth - 1, cycle - due, thing, why);
    }
    void read(channel& c, uint64_t element) {
        hold_until(c.filled_from(element), c, channel::EMPTY);
        reads_.add(*this, {&c, element});
    }
    void write(channel& c, uint64_t element) {
        // In a loop of one state reads and writes are in the same cycle, and wait for each other.
        if (reads_.size && contract_.depth > 1) end_reads();
        writes_.add(*this, {&c, element});
    }

    // The process is going to wait, for a read or a port. During the wait earlier iterations go on. Returns the channel that was
    // told to wake it, for end_wait.
    channel* begin_wait() {
        while (!in_flight_.empty() && settle_first()) continue;
        if (in_flight_.empty()) return nullptr;
        channel* blocking = blocking_first();
        blocking->wake_when_free(&me_);
        return blocking;
    }
    static void end_wait(channel* watched) {
        if (watched) watched->wake_when_free(nullptr);
    }
    std::string in_flight() const {
        if (in_flight_.empty()) return "";
        return "; in its pipeline the first iteration waits " + blocking_first()->waiting(channel::FULL);
    }

private:
    static constexpr cycle_t NEVER = ~cycle_t{0};
    struct leave {
        process& me;
        ~leave() { me.in_loop = nullptr; }
    };
    struct access {
        channel* where;
        uint64_t element;
    };
    struct accesses {
        enum { MOST = 32 };
        access all[MOST];
        uint32_t size = 0;
        void add(const loop& l, const access& a) {
            if (__builtin_expect(size == MOST, 0))
                throw error(l.me_.name() + ": loop '" + l.contract_.label + "' uses streams more than " +
                            std::to_string(MOST) + " times in an iteration.");
            all[size++] = a;
        }
        const access* begin() const { return all; }
        const access* end() const { return all + size; }
    };
    // The pipeline stood still for `cycles` cycles in `at`, a cycle that is counted without such times.
    struct standstill {
        cycle_t at, cycles;
    };

    void end_iteration() {
        if (writes_.size) end_writes();
        if (contract_.depth == 1) settle(NEVER);
        if (reads_.size) end_reads();
    }
    void end_reads() {
        const cycle_t cycle = start();
        for (const access& a : reads_) a.where->free(turn(*a.where, cycle + 1, a.where->last_free(), "reads"));
        reads_.size = 0;
    }
    void end_writes() {
        const cycle_t at = start_ + contract_.depth - 1;
        bool now = in_flight_.empty();
        for (const access& a : writes_) now = now && a.where->is_free(a.element);
        if (now) {
            fill(at, writes_.begin(), writes_.end());
        } else {
            for (const access& a : writes_) in_flight_.push_back({a.where, a.element, at});
        }
        writes_.size = 0;
    }
    // The writes of an iteration, whose places are free, in the cycle `at` or as soon as they are.
    template <class Access>
    void fill(cycle_t at, const Access* first, const Access* last) {
        const Access* latest = nullptr;
        const cycle_t due = at + stopped_;
        cycle_t cycle = due;
        for (const Access* a = first; a != last; a++)
            if (a->where->free_from(a->element) > cycle) cycle = (latest = a)->where->free_from(a->element);
        if (latest) stop(at, cycle - due, *latest->where, channel::FULL);
        for (const Access* a = first; a != last; a++)
            a->where->fill(turn(*a->where, cycle + 1, a->where->last_fill(), "writes"));
    }
    // A stream has one port for each direction: a second access in an iteration comes a cycle later.
    cycle_t turn(const channel& c, cycle_t from, cycle_t last, const char* what) const {
        if (__builtin_expect(last < from, 1)) return from;
        if (last + 1 >= from + contract_.ii)
            throw error(me_.name() + ": loop '" + contract_.label + "' has II = " + std::to_string(contract_.ii) +
                        ", but " + what + " '" + c.name() + "' more often in an iteration.");
        return last + 1;
    }

    // ---- iterations whose writes wait for a place ------------------------------------------------------------------
    // The writes of the first one, which lie behind each other.
    std::size_t size_of_first() const {
        std::size_t n = 1;
        while (n < in_flight_.size() && in_flight_[n].at == in_flight_[0].at) n++;
        return n;
    }
    channel* blocking_first() const {
        for (const flight& f : in_flight_)
            if (!f.where->is_free(f.element)) return f.where;
        return in_flight_.front().where;
    }
    bool settle_first() {
        const std::size_t n = size_of_first();
        for (std::size_t i = 0; i < n; i++)
            if (!in_flight_[i].where->is_free(in_flight_[i].element)) return false;
        fill(in_flight_.front().at, in_flight_.data(), in_flight_.data() + n);
        in_flight_.erase(in_flight_.begin(), in_flight_.begin() + static_cast<std::ptrdiff_t>(n));
        return true;
    }
    // Waits until all have written whose turn is in the cycle `until` or before.
    void settle(cycle_t until) {
        while (!in_flight_.empty() && in_flight_.front().at <= until) {
            if (settle_first()) continue;
            channel* blocking = blocking_first();
            struct watch {
                channel* c;
                ~watch() { c->wake_when_free(nullptr); }
            } watched{blocking};
            blocking->wake_when_free(&me_);
            suspend(me_, *blocking, channel::FULL);
        }
    }

    // ---- standstills -----------------------------------------------------------------------------------------------
    // Those whose cycle the start has passed, or is in, move it.
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
            } else if (!in_flight_.empty() && in_flight_.front().at <= to) {
                settle(in_flight_.front().at);  // which may be a standstill
            } else {
                start_ = to;
            }
        }
        if (start_ > before) me_.stalled(thing, why, start_ - before);
    }
    __attribute__((noinline)) void stop(cycle_t at, cycle_t cycles, const stall_cause& thing, int why) {
        me_.stalled(thing, why, cycles);
        stops_.push_back({at, cycles});
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
    std::vector<flight>& in_flight_;
    int alive_;
};

inline std::string process::also_waits() const { return in_loop ? in_loop->in_flight() : ""; }

inline void suspend_in_loop(process& me, const wait_source& thing, int why) {
    struct watch {
        channel* c;
        ~watch() { loop::end_wait(c); }
    } watched{COUNTING && me.in_loop ? me.in_loop->begin_wait() : nullptr};
    suspend(me, thing, why);
}

}  // namespace sim
