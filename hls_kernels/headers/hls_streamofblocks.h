// Stands in for the header of Vitis HLS on the emulator: blocks that are written and read in turn, as many as are written.
#pragma once
#ifdef FPGA_DATAFLOW
#include "sim/hls_streamofblocks.h"
#else
#include <deque>
#include <stdexcept>
#include <string>

namespace hls {

template <class Block_, int DEPTH_ = 2>
class stream_of_blocks {
public:
    explicit stream_of_blocks(const char* name = nullptr) : name_(name ? name : "") {}
    stream_of_blocks(const stream_of_blocks&) = delete;
    stream_of_blocks& operator=(const stream_of_blocks&) = delete;

    bool empty() const { return blocks_.empty(); }
    bool full() const { return false; }

    // What locks do.
    Block_& write_acquire() { return blocks_.emplace_back().block; }
    // Raises std::runtime_error if no block has been written that has not been read.
    Block_& read_acquire() {
        if (empty()) throw std::runtime_error("stream of blocks '" + name_ + "' is read while it is empty");
        return blocks_.front().block;
    }
    void read_release() { blocks_.pop_front(); }

private:
    struct held {
        Block_ block = {};  // which may be an array
    };
    std::string name_;
    std::deque<held> blocks_;
};

template <class Block_, int DEPTH_ = 2>
class write_lock {
public:
    template <int D_>
    explicit write_lock(stream_of_blocks<Block_, D_>& blocks) : block_(blocks.write_acquire()) {}
    write_lock(const write_lock&) = delete;
    operator Block_&() { return block_; }

private:
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
