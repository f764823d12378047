// Stands in for the header of Vitis HLS while loops are checked: a lock gives the block, which is a memory.
#pragma once
#include "hls_stream.h"

namespace hls {

template <class T_, int DEPTH_ = 2>
class stream_of_blocks {
public:
    stream_of_blocks() = default;
    explicit stream_of_blocks(const char*) {}
    T_& __hls_block() { return block; }
    T_ block;
};
template <class T_>
class read_lock {
public:
    template <int DEPTH_>
    read_lock(stream_of_blocks<T_, DEPTH_>& blocks) : block_(blocks.block) {}
    operator const T_&() const { return block_; }
    const T_& __hls_block() const { return block_; }

private:
    const T_& block_;
};
template <class T_>
class write_lock {
public:
    template <int DEPTH_>
    write_lock(stream_of_blocks<T_, DEPTH_>& blocks) : block_(blocks.block) {}
    operator T_&() const { return block_; }
    T_& __hls_block() const { return block_; }

private:
    T_& block_;
};

}  // namespace hls
