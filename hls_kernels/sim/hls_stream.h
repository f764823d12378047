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

template <class T_, int DEPTH_ = 2>
class stream {
    static_assert(DEPTH_ >= 1, "a stream holds at least one element");

public:
    typedef T_ value_type;
    explicit stream(const char* name = nullptr)
        : channel_(sim::name_of(name, "a stream"), DEPTH_), values_(new T_[channel_.ring()]) {}

    T_ read() {
        sim::process& me = sim::self();
        const uint64_t element = channel_.take(me);
        T_ x = std::move(values_[channel_.at(element)]);
        sim::finish_read(me, channel_, element);
        return x;
    }
    void write(const T_& x) {
        sim::process& me = sim::self();
        const uint64_t element = channel_.reserve(me);
        if (__builtin_expect(channel_.is_crowded(), 0)) grow(element);
        values_[channel_.at(element)] = x;
        sim::finish_write(me, channel_, element);
    }
    void read(T_& x) { x = read(); }
    void operator>>(T_& x) { x = read(); }
    void operator<<(const T_& x) { write(x); }

    template <class U_ = T_>
    bool empty() const {
        return only_blocking<U_>();
    }
    template <class U_ = T_>
    bool full() const {
        return only_blocking<U_>();
    }
    template <class U_>
    bool read_nb(U_&) {
        return only_blocking<U_>();
    }
    template <class U_>
    bool write_nb(const U_&) {
        return only_blocking<U_>();
    }

    const sim::channel& channel() const { return channel_; }  // of the simulator, for benches

private:
    // Makes room for the elements in the writer's pipeline.
    void grow(uint64_t end) {
        std::unique_ptr<T_[]> before = std::move(values_);
        values_.reset(new T_[2 * channel_.ring()]);
        const uint64_t mask = 2 * channel_.ring() - 1;
        for (uint64_t e = channel_.oldest(); e != end; e++) values_[e & mask] = std::move(before[channel_.at(e)]);
        channel_.grow();
    }
    template <class U_>
    static bool only_blocking() {
        static_assert(!std::is_same<U_, U_>::value, "only read() and write(): see the head of hls_stream.h");
        return false;
    }
    sim::channel channel_;
    std::unique_ptr<T_[]> values_;
};

}  // namespace hls
