// hls::stream_of_blocks under g++: memories that two processes use in turn, DEPTH in all, 2 as in Vitis HLS (a ping-pong).
//
// A block may be an array type or a structure. As in AMD's header, a lock is converted to a reference to the block:
//     hls::write_lock<window_t> lock(windows);
//     window_t& window = lock;
// AMD's locks take streams of two blocks only, and so do those of kernels that are to be synthesised.
#pragma once
#include <cstdint>
#include <exception>
#include <memory>
#include <string>

#include "hls_stream.h"

namespace sim {

// A lock is sequential code: acquiring and releasing a block take a cycle each.
inline void only_between_loops(const process& me, const channel& c) {
    if (COUNTING && me.in_loop)
        throw error(me.name() + ": a block of '" + c.name() + "' is locked or released within a pipelined loop.");
}

}  // namespace sim

namespace hls {

template <class T_, int DEPTH_ = 2>
class stream_of_blocks {
    static_assert(DEPTH_ >= 1, "a stream of blocks holds at least one block");
    struct block {
        T_ value;
    };

public:
    explicit stream_of_blocks(const char* name = nullptr)
        : channel_(sim::name_of(name, "a stream of blocks"), DEPTH_), blocks_(new block[DEPTH_]()) {}

    T_& write_acquire() {
        sim::process& me = sim::self();
        sim::only_between_loops(me, channel_);
        const uint64_t element = channel_.reserve(me);
        if (sim::COUNTING) me.wait_until(channel_.free_from(element), channel_, sim::channel::FULL);
        me.now++;
        return blocks_[element % DEPTH_].value;
    }
    void write_release() {
        sim::process& me = sim::self();
        sim::only_between_loops(me, channel_);
        channel_.fill(++me.now);
    }
    T_& read_acquire() {
        sim::process& me = sim::self();
        sim::only_between_loops(me, channel_);
        const uint64_t element = channel_.take(me);
        if (sim::COUNTING) me.wait_until(channel_.filled_from(element), channel_, sim::channel::EMPTY);
        me.now++;
        return blocks_[element % DEPTH_].value;
    }
    void read_release() {
        sim::process& me = sim::self();
        sim::only_between_loops(me, channel_);
        channel_.free(++me.now);
    }

    const sim::channel& channel() const { return channel_; }  // of the simulator, for benches

private:
    sim::channel channel_;
    std::unique_ptr<block[]> blocks_;
};

template <class T_, int DEPTH_ = 2>
class write_lock {
public:
    explicit write_lock(stream_of_blocks<T_, DEPTH_>& s)
        : stream_(s), block_(s.write_acquire()), alive_(std::uncaught_exceptions()) {}
    ~write_lock() noexcept(false) {
        if (std::uncaught_exceptions() == alive_) stream_.write_release();
    }
    write_lock(const write_lock&) = delete;
    operator T_&() { return block_; }
    T_& operator=(const T_& x) { return block_ = x; }

private:
    stream_of_blocks<T_, DEPTH_>& stream_;
    T_& block_;
    int alive_;
};

template <class T_, int DEPTH_ = 2>
class read_lock {
public:
    explicit read_lock(stream_of_blocks<T_, DEPTH_>& s)
        : stream_(s), block_(s.read_acquire()), alive_(std::uncaught_exceptions()) {}
    ~read_lock() noexcept(false) {
        if (std::uncaught_exceptions() == alive_) stream_.read_release();
    }
    read_lock(const read_lock&) = delete;
    operator T_&() { return block_; }

private:
    stream_of_blocks<T_, DEPTH_>& stream_;
    T_& block_;
    int alive_;
};

}  // namespace hls
