// Several CUs on one card that share a network. Their lists have the same length, and command i of each computes a part of
// the same layer, or is ENGINE_IDLE. Before a CU reads results of others, all CUs must have finished the command that
// writes these results.
//
// The process `store` sends a token for every command, when memory has acknowledged the writes. `barrier`, a kernel of its own,
// is a synchronization barrier: it reads one token from each CU and then sends one to all of them. In a CU `receive_from_peers`
// passes the token on to the two processes that read feature maps. `stream_connect` links the kernels.
//
// No deadlock is possible. A process that loads has read the tokens of all commands but the last PEERS_AHEAD before its own.
// A token is sent only after this CU's own store has finished the command. So a stream of PEERS_AHEAD places is never full.
#pragma once
#include "streams.hpp"

namespace engine {

constexpr int CUS = ENGINE_CUS;
constexpr int PEERS_AHEAD = 6;  // commands that a process that loads is ahead of the slowest CU, at most

#if ENGINE_CUS > 1

typedef hls::stream<uint32_t, PEERS_AHEAD + 2> peer_stream;

// From receive_from_peers to the processes that load.
struct peer_side {
    peer_stream input{"peers of load_input"}, residual{"peers of load_residual"};
};

// What such a process knows: how many commands all CUs have finished.
struct peer_progress_t {
    int32_t commands = 0;
    // Waits until all have finished the command at `position`.
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

inline void receive_from_peers(peer_stream& from, uint32_t count, peer_side& to) {
received_commands:
    for (uint32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        const uint32_t position = from.read();
        to.input.write(position);
        to.residual.write(position);
    }
}

// The kernel that synchronizes all CUs.
// \tparam N Number of CUs.
template <int N>
void barrier(peer_stream from[N], uint32_t count, peer_stream to[N]) {
barrier_commands:
    for (uint32_t i = 0; i < count; i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        for (int cu = 0; cu < N; cu++) from[cu].read();
        for (int cu = 0; cu < N; cu++) to[cu].write(i);
    }
}

inline void notify_peers(peer_stream& to, int32_t position) { to.write(static_cast<uint32_t>(position)); }

#else

struct peer_stream {};
struct peer_side {
    peer_stream input, residual;
};
struct peer_progress_t {
    void until(peer_stream&, int32_t) {}
};
inline void notify_peers(peer_stream&, int32_t) {}

#endif

}  // namespace engine
