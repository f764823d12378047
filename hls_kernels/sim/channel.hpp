// What streams and streams of blocks have in common: places that are written and read in turn.
//
// A read takes a place and later frees it, a write reserves a place and later fills it. Within an iteration of a pipelined
// loop the second half comes when the iteration's cycle is known (loop.hpp); outside it comes at once, and takes a cycle.
// The rule of the cycles is that of AMD's FIFOs, whose flags are registers: what is written in cycle c can be read from
// c + 1 on, and a place that is read in cycle c can be written from c + 1 on. A FIFO of one place so moves an element
// every second cycle, as it does on the card.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "process.hpp"

namespace sim {

class channel : public stall_cause {
public:
    enum : int { EMPTY, FULL };

    channel(std::string name, uint32_t places) : name_(std::move(name)), places_(places) {
        if (COUNTING) stamps_.assign(places, 0);
    }
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    const std::string& name() const { return name_; }
    uint32_t places() const { return places_; }
    uint64_t moved() const { return taken_; }  // elements that have been read

    // The place to read, once there is something in it.
    uint32_t take(process& me) {
        if (__builtin_expect(me.id() != reader_.id, 0)) claim(reader_, me, "read");
        if (__builtin_expect(me.interruptible, 0)) interrupt(me);
        while (__builtin_expect(taken_ == filled_, 0)) wait(me, waiting_reader_, EMPTY);
        taken_++;
        return next(read_at_);
    }
    // The place to write, once it is free.
    uint32_t reserve(process& me) {
        if (__builtin_expect(me.id() != writer_.id, 0)) claim(writer_, me, "written");
        if (__builtin_expect(me.interruptible, 0)) interrupt(me);
        while (__builtin_expect(reserved_ - freed_ == places_, 0)) wait(me, waiting_writer_, FULL);
        reserved_++;
        return next(write_at_);
    }
    // `stamp`: the first cycle in which the place can be written again.
    void free(uint32_t at, cycle_t stamp) {
        if (COUNTING) stamps_[at] = last_free_ = stamp;
        freed_++;
        if (waiting_writer_) wake(waiting_writer_);
    }
    // `stamp`: the first cycle in which the element can be read.
    void fill(uint32_t at, cycle_t stamp) {
        if (COUNTING) stamps_[at] = last_fill_ = stamp;
        filled_++;
        if (waiting_reader_) wake(waiting_reader_);
    }
    cycle_t stamp(uint32_t at) const { return stamps_[at]; }
    cycle_t last_free() const { return last_free_; }
    cycle_t last_fill() const { return last_fill_; }

    std::string cause(int why) const override { return "'" + name_ + (why == EMPTY ? "' empty" : "' full"); }
    std::string waiting(int why) const override {
        const bool empty = why == EMPTY;
        const user& other = empty ? writer_ : reader_;
        std::string text = (empty ? "to read '" : "to write '") + name_ + "', which is " + (empty ? "empty" : "full") +
                           " (depth " + std::to_string(places_) + ", " + (empty ? "written by " : "read by ");
        if (!other.id) return text + "nobody so far)";
        return text + other.name + (fibers().live(other.id) ? ")" : ", which has ended)");
    }

private:
    struct user {
        uint64_t id = 0;
        std::string name;
    };
    uint32_t next(uint32_t& at) const {
        const uint32_t now = at;
        at = now + 1 == places_ ? 0 : now + 1;
        return now;
    }
    __attribute__((noinline)) void claim(user& u, process& me, const char* what) const {
        if (u.id && fibers().live(u.id))
            throw error("'" + name_ + "' is " + what + " by two processes, '" + u.name + "' and '" + me.name() +
                        "'; give each a stream of its own.");
        u.id = me.id();
        u.name = me.name();
    }
    __attribute__((noinline)) void wait(process& me, process*& waiting, int why) {
        waiting = &me;
        suspend(me, *this, why);
    }
    __attribute__((noinline)) static void wake(process*& waiting) { fibers().wake(*std::exchange(waiting, nullptr)); }

    std::string name_;
    uint32_t places_, read_at_ = 0, write_at_ = 0;
    uint64_t taken_ = 0, freed_ = 0, reserved_ = 0, filled_ = 0;
    cycle_t last_free_ = 0, last_fill_ = 0;
    process *waiting_reader_ = nullptr, *waiting_writer_ = nullptr;
    user reader_, writer_;
    std::vector<cycle_t> stamps_;
};

inline std::string name_of(const char* name, const char* otherwise) { return name && *name ? name : otherwise; }

}  // namespace sim
