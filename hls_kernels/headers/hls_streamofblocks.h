// Stands in for the header of Vitis HLS on the emulator: see sim/fifo.hpp for depths and for who waits.
#pragma once
#ifdef FPGA_COSIM
#include "sim/cosim/hls_streamofblocks.h"
#elif defined(FPGA_DATAFLOW)
#include "sim/hls_streamofblocks.h"
#else
#include <cstddef>
#include <deque>

#include "sim/fifo.hpp"

namespace hls {

template <class Block_, int DEPTH_ = 2>
class stream_of_blocks {
public:
    explicit stream_of_blocks(const char* name = nullptr) : fifo_(name) {}
    stream_of_blocks(const stream_of_blocks&) = delete;
    stream_of_blocks& operator=(const stream_of_blocks&) = delete;

    bool empty() const { return fifo_.poll_empty(); }
    bool full() const { return fifo_.poll_full(); }

    // What locks do.
    Block_& write_acquire() {
        fifo_.await_place();
        return blocks_.emplace_back().block;
    }
    void write_release() { fifo_.filled(); }
    // Waits for a block. Raises std::runtime_error if none can come.
    Block_& read_acquire() {
        fifo_.await_element();
        return blocks_.front().block;
    }
    void read_release() {
        blocks_.pop_front();
        fifo_.freed();
    }

    sim::fifo& fifo() { return fifo_; }  // of the emulator
    static constexpr std::size_t hardware_depth() { return DEPTH_; }

private:
    struct held {
        Block_ block = {};  // which may be an array
    };
    sim::fifo fifo_;
    std::deque<held> blocks_;
};

template <class Block_, int DEPTH_ = 2>
class write_lock {
public:
    template <int D_>
    explicit write_lock(stream_of_blocks<Block_, D_>& blocks) : fifo_(blocks.fifo()), block_(blocks.write_acquire()) {}
    ~write_lock() { fifo_.filled(); }
    write_lock(const write_lock&) = delete;
    operator Block_&() { return block_; }

private:
    sim::fifo& fifo_;
    Block_& block_;
};

template <class Block_, int DEPTH_ = 2>
class read_lock {
public:
    explicit read_lock(stream_of_blocks<Block_, DEPTH_>& blocks) : blocks_(blocks), block_(blocks.read_acquire()) {}
    ~read_lock() { blocks_.read_release(); }
    read_lock(const read_lock&) = delete;
    operator Block_&() { return block_; }

private:
    stream_of_blocks<Block_, DEPTH_>& blocks_;
    Block_& block_;
};

}  // namespace hls
#endif
