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

// What the read or write of an element does to the time of the running process.
inline void finish_read(process& me, channel& c, uint64_t element) {
    if (!COUNTING) return c.free(0);
    if (me.in_loop) return me.in_loop->read(c, element);
    me.wait_until(c.filled_from(element), c, channel::EMPTY);
    c.free(++me.now);
}
inline void finish_write(process& me, channel& c, uint64_t element) {
    if (!COUNTING) return c.fill(0);
    if (me.in_loop) return me.in_loop->write(c, element);
    me.wait_until(c.free_from(element), c, channel::FULL);
    c.fill(++me.now);
}

}  // namespace sim

namespace hls {

template <class T, int DEPTH = 2>
class stream {
    static_assert(DEPTH >= 1, "a stream holds at least one element");

public:
    typedef T value_type;
    explicit stream(const char* name = nullptr)
        : channel_(sim::name_of(name, "a stream"), DEPTH), values_(new T[channel_.ring()]) {}

    T read() {
        sim::process& me = sim::self();
        const uint64_t element = channel_.take(me);
        T x = std::move(values_[channel_.at(element)]);
        sim::finish_read(me, channel_, element);
        return x;
    }
    void write(const T& x) {
        sim::process& me = sim::self();
        const uint64_t element = channel_.reserve(me);
        if (__builtin_expect(channel_.is_crowded(), 0)) grow(element);
        values_[channel_.at(element)] = x;
        sim::finish_write(me, channel_, element);
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
    // Makes room for the elements in the writer's pipeline.
    void grow(uint64_t end) {
        std::unique_ptr<T[]> before = std::move(values_);
        values_.reset(new T[2 * channel_.ring()]);
        const uint64_t mask = 2 * channel_.ring() - 1;
        for (uint64_t e = channel_.oldest(); e != end; e++) values_[e & mask] = std::move(before[channel_.at(e)]);
        channel_.grow();
    }
    template <class U>
    static bool only_blocking() {
        static_assert(!std::is_same<U, U>::value, "only read() and write(): see the head of hls_stream.h");
        return false;
    }
    sim::channel channel_;
    std::unique_ptr<T[]> values_;
};

}  // namespace hls
