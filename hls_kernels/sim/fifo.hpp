// What a stream of a plain kernel waits by on the emulator. Without cycles: a process runs until it must wait.
//
// A stream that is declared in a dataflow region is as deep as in hardware (`limit`). Any other stream holds whatever is
// written to it, as in AMD's C simulation. A stream that is an argument of the kernel leads to another compute unit.
#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "ends.hpp"
#include "lib/card_abi.hpp"
#include "process.hpp"

namespace sim {

class fifo : public stall_cause {
public:
    enum : int { EMPTY, FULL };

    explicit fifo(const char* name) : name_(name ? name : "") {}
    ~fifo() {
        if (filled_ != freed_ && !std::uncaught_exceptions()) tell_leftover();
    }
    fifo(const fifo&) = delete;
    fifo& operator=(const fifo&) = delete;

    void set_name(const char* name) { name_ = name; }
    const char* name() const { return name_.c_str(); }
    // `name`: of the variable, for a stream that was given none.
    void limit(std::size_t depth, const char* name) {
        depth_ = depth;
        if (name_.empty()) name_ = name;
    }
    void connect(const fpga::cu_stream* outside) {
        outside_ = outside;
        name_ = outside->name;
    }
    const fpga::cu_stream* outside() const { return outside_; }

    std::size_t size() const { return outside_ ? outside_->size(outside_->fifo) : filled_ - freed_; }
    std::size_t capacity() const { return outside_ ? outside_->depth : depth_; }

    // For what does not wait: whoever asks in a loop must let others run.
    bool poll_empty() const { return size() == 0 && (rest(), size() == 0); }
    bool poll_full() const { return capacity() && size() >= capacity() && (rest(), size() >= capacity()); }

    // The thread itself may use any stream, before and behind a region.
    void await_element() {
        process& me = self();
        if (!ends_.reads(me) && !fibers().at_root()) ends_.read_by(me, title());
        while (filled_ == freed_) wait(me, waiting_reader_, EMPTY);
    }
    void await_place() {
        process& me = self();
        if (!ends_.writes(me) && !fibers().at_root()) ends_.written_by(me, title());
        while (is_full()) wait(me, waiting_writer_, FULL);
    }
    // The first of several that has an element (EMPTY: waits while all are empty), or a place.
    static std::size_t await_any(fifo* const* all, std::size_t count, int why) {
        process& me = self();
        for (;;) {
            for (std::size_t i = 0; i < count; i++)
                if (why == EMPTY ? all[i]->filled_ != all[i]->freed_ : !all[i]->is_full()) return i;
            if (fibers().alone()) throw std::runtime_error(all[0]->alone(why));
            const any_of until_left(all, count, why, me);
            suspend(me, *all[0], why);
        }
    }
    void filled() {
        filled_++;
        wake(waiting_reader_);
    }
    void freed() {
        freed_++;
        wake(waiting_writer_);
    }
    void read_outside(void* element) {
        while (!outside_->read(outside_->fifo, element)) rest_outside(true);
    }
    void write_outside(const void* element) {
        while (!outside_->write(outside_->fifo, element)) rest_outside(false);
    }

    std::string cause(int why) const override { return title() + (why == EMPTY ? " empty" : " full"); }
    std::string waiting(int why) const override { return ends_.waiting(why == EMPTY, title(), depth_); }

private:
    struct polling {
        fiber& of;
        explicit polling(fiber& f) : of(f) { of.set_polling(true); }
        ~polling() { of.set_polling(false); }
    };
    // A process that waits for one of several.
    struct any_of {
        fifo* const* all;
        std::size_t count;
        int why;
        any_of(fifo* const* a, std::size_t n, int w, process& me) : all(a), count(n), why(w) { set(&me); }
        ~any_of() { set(nullptr); }
        void set(process* who) {
            for (std::size_t i = 0; i < count; i++)
                (why == EMPTY ? all[i]->waiting_reader_ : all[i]->waiting_writer_) = who;
        }
    };
    bool is_full() const { return depth_ && filled_ - freed_ >= depth_; }
    std::string title() const { return name_.empty() ? "a stream" : "'" + name_ + "'"; }

    // On a card they would be there in the next run.
    void tell_leftover() const {
        static std::atomic<int> told{0};
        constexpr int MOST = 10;
        if (told.fetch_add(1, std::memory_order_relaxed) < MOST)
            std::fprintf(stderr, "fpga_dynamo: warning: %s ends with %zu element(s) in it that nobody has read\n",
                         title().c_str(), filled_ - freed_);
    }
    void wait(process& me, process*& waiting, int why) {
        if (fibers().alone()) throw std::runtime_error(alone(why));
        const waiting_process until_left(waiting, me);
        suspend(me, *this, why);
    }
    std::string alone(int why) const {
        if (why == FULL)
            return "stream " + title() + " is written while it is full (depth " + std::to_string(depth_) +
                   "), and nobody is left to read it";
        return "stream " + title() +
               " is read while it is empty: the kernel's functions run one after the other, and none in front of this "
               "one has written to it";
    }
    static void wake(process*& waiting) {
        if (__builtin_expect(waiting != nullptr, 0)) waiting_process::wake(waiting);
    }
    void rest() const {
        process& me = self();
        if (outside_) {
            const polling here(me);
            std::this_thread::yield();
            give_way(me);
        } else if (!fibers().alone()) {
            give_way(me);
        }
    }
    // The other end lies in another compute unit: other processes of this one run first.
    void rest_outside(bool for_element) const {
        process& me = self();
        const polling here(me);
        if (!fibers().others_ready(false)) outside_->wait(outside_->fifo, for_element);
        give_way(me);
    }

    std::string name_;
    std::size_t depth_ = 0;  // 0: no limit
    std::size_t filled_ = 0, freed_ = 0;
    const fpga::cu_stream* outside_ = nullptr;
    process *waiting_reader_ = nullptr, *waiting_writer_ = nullptr;
    ends ends_;
};

}  // namespace sim
