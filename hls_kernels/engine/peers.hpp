// Several CUs on one card that share a network: their lists have the same length, and command i of each makes a part of the same
// layer, or is ENGINE_IDLE. Before a CU reads what others have made, all CUs must have done with the command that made it.
//
// Each `store` says so for every command, when memory has answered. `meet`, a kernel of its own, hears one token from each CU
// and tells all of them; in a CU `hear_peers` passes it on to the two processes that read maps. `stream_connect` links them.
//
// Nothing waits in a circle: a process that loads has heard of all commands but the last PEERS_AHEAD before the one it is at,
// and none is told before this CU's own store has done with it, so a stream of PEERS_AHEAD places is never full.
#pragma once
#include "streams.hpp"

namespace engine {

constexpr int CUS = ENGINE_CUS;
constexpr int PEERS_AHEAD = 6;  // commands that a process that loads is ahead of the slowest CU, at most

#if ENGINE_CUS > 1

typedef hls::stream<uint32_t, PEERS_AHEAD + 2> peer_stream;

// From hear_peers to the processes that load.
struct peer_side {
    peer_stream input{"peers of load_input"}, residual{"peers of load_residual"};
};

// What such a process knows: how many commands all CUs have done with.
struct heard_t {
    int32_t commands = 0;
    // Waits until they have done with the command at `position`.
    void until(peer_stream& from, int32_t position) {
#pragma HLS inline
    await_peers:
        while (commands <= position) {
#pragma HLS loop_tripcount min = 0 max = (PEERS_AHEAD + 1)
            from.read();
            commands++;
        }
    }
};

inline void hear_peers(peer_stream& from, uint32_t count, peer_side& to) {
heard_commands:
    for (uint32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const uint32_t position = from.read();
        to.input.write(position);
        to.residual.write(position);
    }
}

// The kernel that all CUs meet in.
template <int N>
void meet(peer_stream from[N], uint32_t count, peer_stream to[N]) {
met_commands:
    for (uint32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        for (int cu = 0; cu < N; cu++) from[cu].read();
        for (int cu = 0; cu < N; cu++) to[cu].write(i);
    }
}

inline void tell_peers(peer_stream& to, int32_t position) { to.write(static_cast<uint32_t>(position)); }

#else

struct peer_stream {};
struct peer_side {
    peer_stream input, residual;
};
struct heard_t {
    void until(peer_stream&, int32_t) {}
};
inline void tell_peers(peer_stream&, int32_t) {}

#endif

}  // namespace engine
