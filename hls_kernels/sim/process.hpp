// A process and its own time. There is no global clock. An element carries the cycle from which on it may be read, and a
// place carries the cycle from which on it is free. So each process can count by itself.
//
// With FPGA_COUNT_CYCLES=0 processes have no time; loops, stamps and stalls are compiled away.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "counters.hpp"
#include "fibers.hpp"

#ifndef FPGA_COUNT_CYCLES
#define FPGA_COUNT_CYCLES 0
#endif

namespace sim {

constexpr bool COUNTING = FPGA_COUNT_CYCLES != 0;

class channel;
class loop;

// A write that waits in a pipeline for a place, and when it would have been without standstills.
struct flight {
    channel* where;
    uint64_t element;
    cycle_t at;
};

// Something that a process can wait for, and that its stall is told by.
struct stall_cause : wait_source {
    virtual std::string cause(int why) const = 0;

protected:
    ~stall_cause() = default;
};

class process : public fiber {
public:
    explicit process(std::string name) : fiber(std::move(name)) { counts.commands.emplace_back(); }

    cycle_t now = 0;             // outside of pipelined loops: the cycle in which the process is
    loop* in_loop = nullptr;     // the pipelined loop that it is in
    uint64_t iteration = 0;      // of all pipelined loops that it has run
    bool interruptible = false;  // tests: others may run at any stream operation
    bool ended = false;
    bool endless = false;             // a task
    std::vector<std::string> arrays;  // variables that it shares with other processes of its region, but for streams
    void* control = nullptr;          // of a co-simulation: its clock (cosim/control.hpp)
    process_count counts;
    std::vector<flight> in_flight;  // of the loop; here so that its memory is kept

    std::string also_waits() const override;

    void stalled(const stall_cause& thing, int why, cycle_t cycles) {
        std::vector<stall_count>& all = counts.commands.back().stalls;
        for (stall_count& s : all)
            if (s.thing == &thing && s.why == why) {
                s.cycles += cycles;
                return;
            }
        new_stall(all, thing, why, cycles);
    }
    // Outside of pipelined loops: time passes until `cycle`, because of `thing`.
    void wait_until(cycle_t cycle, const stall_cause& thing, int why) {
        if (cycle <= now) return;
        stalled(thing, why, cycle - now);
        now = cycle;
    }
    // Channels that have been destroyed may come again at the same address.
    void forget_addresses() {
        for (stall_count& s : counts.commands.back().stalls) s.thing = nullptr;
    }
    void begin_command(int64_t index) {
        end_command();
        counts.commands.emplace_back();
        counts.commands.back().index = index;
        counts.commands.back().first = now;
    }
    void end_command() {
        command_count& c = counts.commands.back();
        c.last = now;
        if (c.index < 0 && c.first == c.last) counts.commands.pop_back();
    }
    loop_count& loop_counter(const char* label) {
        for (loop_count& l : counts.loops)
            if (l.label == label) return l;
        counts.loops.push_back({label, 0, 0, 0});
        return counts.loops.back();
    }
    void count(const std::string& event, uint64_t n) {
        for (auto& e : counts.events)
            if (e.first == event) {
                e.second += n;
                return;
            }
        counts.events.emplace_back(event, n);
    }

private:
    __attribute__((noinline)) static void new_stall(std::vector<stall_count>& all, const stall_cause& thing, int why,
                                                    cycle_t cycles) {
        const std::string cause = thing.cause(why);
        for (stall_count& s : all)
            if (s.cause == cause) {
                s.cycles += cycles;
                s.thing = &thing;
                s.why = why;
                return;
            }
        all.push_back({cause, cycles, &thing, why});
    }
};

namespace detail {
inline thread_local process* current = nullptr;

// The process that is the thread itself.
inline process& root() {
    static thread_local process of_thread("main");
    if (!of_thread.id()) fibers().set_root(of_thread);
    return of_thread;
}
__attribute__((noinline)) inline process& make_root() { return *(current = &root()); }
}  // namespace detail

// The process that is running; the thread itself is one, called "main".
inline process& self() {
    if (__builtin_expect(detail::current == nullptr, 0)) return detail::make_root();
    return *detail::current;
}

// Waits until somebody wakes the process.
inline void suspend(process& me, const wait_source& thing, int why, bool may_throw = true) {
    struct restore {
        process* me;
        ~restore() { detail::current = me; }
    } back{&me};
    fibers().suspend(thing, why, may_throw);
}

// The same for what a pipelined loop waits for in its first stage (loop.hpp).
void suspend_in_loop(process& me, const wait_source& thing, int why);

// Lets others run first.
inline void give_way(process& me) {
    fibers().yield();
    detail::current = &me;
}

// Tests: perhaps lets others run first.
__attribute__((noinline)) inline void interrupt(process& me) {
    if (fibers().failed() || fibers().random() % 2) return;
    give_way(me);
}

// What a process calls when it begins to work for a command, and what comes behind the last one is nobody's again.
inline void command(int64_t index) {
    if (COUNTING) self().begin_command(index);
}
inline void command_done() {
    if (COUNTING) self().begin_command(-1);
}
// Counts something of its own, such as useful multiplications.
inline void count(const char* event, uint64_t n) {
    if (COUNTING) self().count(event, n);
}

}  // namespace sim
