// Stands in for the header of Vitis HLS while loops are checked: a lock gives the block, which is a memory.
#pragma once
#include "hls_stream.h"

namespace hls {

template <class T, int DEPTH = 2>
class stream_of_blocks {
public:
    stream_of_blocks() = default;
    explicit stream_of_blocks(const char*) {}
    T& __hls_block() { return block; }
    T block;
};
template <class T>
class read_lock {
public:
    template <int DEPTH>
    read_lock(stream_of_blocks<T, DEPTH>& blocks) : block_(blocks.block) {}
    operator const T&() const { return block_; }
    const T& __hls_block() const { return block_; }

private:
    const T& block_;
};
template <class T>
class write_lock {
public:
    template <int DEPTH>
    write_lock(stream_of_blocks<T, DEPTH>& blocks) : block_(blocks.block) {}
    operator T&() const { return block_; }
    T& __hls_block() const { return block_; }

private:
    T& block_;
};

}  // namespace hls
