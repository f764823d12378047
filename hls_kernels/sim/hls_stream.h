// hls::stream under g++: bounded by its real depth, blocking, between two processes of a dataflow region.
//
// Questions that do not block (empty, full, read_nb, ...) have no answer here: it would depend on the cycle, and a network of
// processes that ask them is not sure to give the same result twice.
#pragma once
#include <memory>
#include <type_traits>
#include <utility>

#include "channel.hpp"
#include "loop.hpp"

namespace sim {

// What a read or write of a place does to the time of the running process.
inline void read_place(process& me, channel& c, uint32_t at) {
    if (!COUNTING) return c.free(at, 0);
    if (me.in_loop) return me.in_loop->read(c, at);
    me.wait_until(c.stamp(at), c, channel::EMPTY);
    c.free(at, ++me.now);
}
inline void write_place(process& me, channel& c, uint32_t at) {
    if (!COUNTING) return c.fill(at, 0);
    if (me.in_loop) return me.in_loop->write(c, at);
    me.wait_until(c.stamp(at), c, channel::FULL);
    c.fill(at, ++me.now);
}

}  // namespace sim

namespace hls {

template <class T, int DEPTH = 2>
class stream {
    static_assert(DEPTH >= 1, "a stream holds at least one element");

public:
    typedef T value_type;
    explicit stream(const char* name = nullptr)
        : channel_(sim::name_of(name, "a stream"), DEPTH), values_(new T[DEPTH]) {}

    T read() {
        sim::process& me = sim::self();
        const uint32_t at = channel_.take(me);
        T x = std::move(values_[at]);
        sim::read_place(me, channel_, at);
        return x;
    }
    void write(const T& x) {
        sim::process& me = sim::self();
        const uint32_t at = channel_.reserve(me);
        values_[at] = x;
        sim::write_place(me, channel_, at);
    }
    void read(T& x) { x = read(); }
    void operator>>(T& x) { x = read(); }
    void operator<<(const T& x) { write(x); }

    template <class U = T>
    bool empty() const {
        return only_blocking<U>();
    }
    template <class U = T>
    bool full() const {
        return only_blocking<U>();
    }
    template <class U>
    bool read_nb(U&) {
        return only_blocking<U>();
    }
    template <class U>
    bool write_nb(const U&) {
        return only_blocking<U>();
    }

    const sim::channel& channel() const { return channel_; }  // of the simulator, for benches

private:
    template <class U>
    static bool only_blocking() {
        static_assert(!std::is_same<U, U>::value, "only read() and write(): see the head of hls_stream.h");
        return false;
    }
    sim::channel channel_;
    std::unique_ptr<T[]> values_;
};

}  // namespace hls
