// What streams and streams of blocks have in common: places that are written and read in turn.
//
// A read takes an element and later frees its place, a write reserves an element and later fills it. Within an iteration of a
// pipelined loop the second half comes when its cycle is known (loop.hpp); outside it comes at once, and takes a cycle.
// The rule of the cycles is that of AMD's FIFOs, whose flags are registers. An element that is written in cycle c can be read
// from c + 1 on. A place that is read in cycle c can be written from c + 1 on. A FIFO of one place so moves an element
// every second cycle, as it does on the card.
#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "ends.hpp"
#include "process.hpp"

namespace sim {

class channel : public stall_cause {
public:
    enum : int { EMPTY, FULL };

    channel(std::string name, uint32_t places) : name_(std::move(name)), places_(places) {
        uint32_t ring = 1;
        while (ring < places) ring *= 2;
        mask_ = ring - 1;
        if (COUNTING) stamps_.resize(ring);
    }
    channel(const channel&) = delete;
    channel& operator=(const channel&) = delete;

    const std::string& name() const { return name_; }
    uint32_t places() const { return places_; }
    uint64_t moved() const { return taken_; }  // elements that have been read
    // Elements are numbered from 0 on; values lie in a ring of so many, a power of 2.
    uint64_t ring() const { return mask_ + 1; }
    uint64_t at(uint64_t element) const { return element & mask_; }
    uint64_t oldest() const { return taken_; }

    // The element to read, once it is there.
    uint64_t take(process& me) {
        if (__builtin_expect(!ends_.reads(me), 0)) claim_read(me);
        if (__builtin_expect(me.interruptible, 0)) interrupt(me);
        while (__builtin_expect(taken_ == filled_, 0)) wait(me, waiting_reader_, EMPTY);
        return taken_++;
    }
    // The element to write. Outside of pipelined loops once its place is free; within them it may be one that is still in the
    // pipeline, and the ring has to grow if it `is_crowded`.
    uint64_t reserve(process& me) {
        if (__builtin_expect(!ends_.writes(me), 0)) claim_write(me);
        if (__builtin_expect(me.interruptible, 0)) interrupt(me);
        if (!COUNTING || !me.in_loop)
            while (__builtin_expect(!is_free(reserved_), 0)) wait(me, waiting_writer_, FULL);
        return reserved_++;
    }
    bool is_crowded() const { return COUNTING && reserved_ - taken_ > ring(); }
    void grow() {
        std::vector<stamp> larger(2 * ring());
        const uint64_t mask = larger.size() - 1;
        for (uint64_t e = taken_; e != filled_; e++) larger[e & mask].filled = stamps_[at(e)].filled;
        for (uint64_t e = freed_ > ring() ? freed_ - ring() : 0; e != freed_; e++)
            larger[e & mask].freed = stamps_[at(e)].freed;
        stamps_.swap(larger);
        mask_ = mask;
    }
    // Whether the element has a place: the one that lies `places` elements back has been freed.
    bool is_free(uint64_t element) const { return element - freed_ < places_; }
    // From which cycle on it has.
    cycle_t free_from(uint64_t element) const { return element < places_ ? 0 : stamps_[at(element - places_)].freed; }
    cycle_t filled_from(uint64_t element) const { return stamps_[at(element)].filled; }

    // `from`: the first cycle in which the place can be written again.
    void free(cycle_t from) {
        if (COUNTING) stamps_[at(freed_)].freed = last_free_ = from;
        freed_++;
        if (waiting_writer_) wake(waiting_writer_);
    }
    // `from`: the first cycle in which the element can be read.
    void fill(cycle_t from) {
        if (COUNTING) stamps_[at(filled_)].filled = last_fill_ = from;
        filled_++;
        if (waiting_reader_) wake(waiting_reader_);
    }
    cycle_t last_free() const { return last_free_; }
    cycle_t last_fill() const { return last_fill_; }
    // Whoever waits for something else, but is also to run when a place is free; null when that is over.
    void wake_when_free(process* who) { waiting_writer_ = who; }

    std::string cause(int why) const override { return "'" + name_ + (why == EMPTY ? "' empty" : "' full"); }
    std::string waiting(int why) const override { return ends_.waiting(why == EMPTY, title(), places_); }

private:
    struct stamp {
        cycle_t filled = 0, freed = 0;
    };
    std::string title() const { return "'" + name_ + "'"; }
    __attribute__((noinline)) void claim_read(const process& me) { ends_.read_by(me, title()); }
    __attribute__((noinline)) void claim_write(const process& me) { ends_.written_by(me, title()); }
    __attribute__((noinline)) void wait(process& me, process*& waiting, int why) {
        const waiting_process until_left(waiting, me);
        if (why == EMPTY) return suspend_in_loop(me, *this, why);
        suspend(me, *this, why);
    }
    __attribute__((noinline)) static void wake(process*& waiting) { waiting_process::wake(waiting); }

    std::string name_;
    uint32_t places_;
    uint64_t mask_;
    uint64_t taken_ = 0, freed_ = 0, reserved_ = 0, filled_ = 0;
    cycle_t last_free_ = 0, last_fill_ = 0;
    process *waiting_reader_ = nullptr, *waiting_writer_ = nullptr;
    ends ends_;
    std::vector<stamp> stamps_;
};

inline std::string name_of(const char* name, const char* otherwise) { return name && *name ? name : otherwise; }

}  // namespace sim
