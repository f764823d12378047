// What a stream waits by in a co-simulation. Values run ahead of time: a write never waits for a place, and a read waits
// for a value alone. The network says when each of them happens (network.hpp).
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "../ends.hpp"
#include "control.hpp"

namespace sim::cosim {

class fifo : public stall_cause {
public:
    enum : int { EMPTY, FULL };

    explicit fifo(const char* name) : name_(name ? name : "") {}
    fifo(const fifo&) = delete;
    fifo& operator=(const fifo&) = delete;

    void set_name(const char* name) { name_ = name; }
    // Makes it the FIFO of this name in a region. A region that runs again has the same FIFOs.
    void limit(const std::string& region, std::size_t depth, const std::string& name);

    void await_element(site from);
    void place(site from);
    void filled() {
        filled_++;
        if (waiting_reader_) waiting_process::wake(waiting_reader_);
    }
    void freed() { freed_++; }

    // way: R or W in the stage of a read or write that does not wait, Q for a question alone.
    bool empty(unsigned line, char way = 'Q') {
        if (control* c = current()) return c->ask(number(), question::EMPTY, line, way, last_read_) != 0;
        return filled_ == freed_;
    }
    bool full(unsigned line, char way = 'Q') {
        if (control* c = current()) return c->ask(number(), question::FULL, line, way, last_write_) != 0;
        return false;
    }
    std::size_t size(unsigned line) {
        if (control* c = current())
            return static_cast<std::size_t>(c->ask(number(), question::SIZE, line, 'Q', last_read_));
        return filled_ - freed_;
    }
    // The first of several that has an element (EMPTY), or a place: all are asked in each cycle.
    static std::size_t await_any(fifo* const* all, std::size_t count, int why) {
        for (;; current()->base++)
            for (std::size_t n = 0; n < count; n++)
                if (!(why == EMPTY ? all[n]->empty(0) : all[n]->full(0))) return n;
    }
    std::size_t capacity() { return whole().net.fifos[number()].depth; }

    std::string cause(int) const override { return title() + " empty"; }
    std::string waiting(int) const override { return "to read " + title() + ", which is empty"; }
    std::uint32_t number();

private:
    void record(control& c, const event& e, cycle at);
    void await_value(control* c, cycle at, site from);
    std::string title() const { return name_.empty() ? "a stream" : "'" + name_ + "'"; }

    std::string name_;
    std::uint32_t number_ = UINT32_MAX;
    std::size_t filled_ = 0, freed_ = 0;
    cycle last_read_ = UNKNOWN, last_write_ = UNKNOWN;
    process* waiting_reader_ = nullptr;
};

}  // namespace sim::cosim

namespace sim {
using cosim::fifo;
}
