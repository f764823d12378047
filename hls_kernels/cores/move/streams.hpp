// Head of a group of streams (streams_command). Part of the core move, which every kernel has.
//
// A compute unit runs its list in order and ignores the head. The lanes of the emulator run streams in parallel
// (cu_stub.cpp.j2); no core does this.
#pragma once
#include "command.hpp"
#include "lib/bounds.hpp"
#include "lib/vector.hpp"

namespace fpga {

inline uint32_t streams(const streams_command&, const vec16*, vec16*, const vec16*, uint32_t, uint32_t) {
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
inline void streams_bounds(const streams_command& c, bounds& b) {
    b.require(c.count >= 1 && c.count <= MOST_STREAMS, "has no stream, or more than 32");
    for (int32_t s = 0; b.ok() && s < MOST_STREAMS; s++)
        b.require(s < c.count ? c.length[s] >= 1 : c.length[s] == 0, "has an empty stream, or a length of none");
}
#endif

}  // namespace fpga
