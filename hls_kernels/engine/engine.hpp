// The engine: a dataflow region that runs a list of commands. Each process goes through the whole list, so that the weights
// and the window of a command load while the array still works on the one before; store tells the processes that load what
// is in memory by then.
#pragma once
#include "processes/epilogue.hpp"
#include "processes/feed.hpp"
#include "processes/fetch.hpp"
#include "processes/fill_window.hpp"
#include "processes/load_input.hpp"
#include "processes/load_residual.hpp"
#include "processes/load_weights.hpp"
#include "processes/mac_array.hpp"
#include "processes/store.hpp"
#include "vector/vector.hpp"

namespace engine {

// Ports of the kernel: `input`, `residual` and `output` lead to the same region, that of the maps. Streams of a CU that has peers:
// to `barrier` and from there.
inline void run_list(command_port_t commands, uint32_t count, weight_port_t weights, input_argument_t input,
                     input_argument_t residual, port_argument_t output, peer_stream& to_peers,
                     peer_stream& from_peers) {
#pragma HLS inline
    job_streams jobs;
    beat_stream input_beats("input_beats");
    short_stream map_lines("map_lines");
#if ENGINE_OUT_CHANNELS == 32
    line_stream residual_lines[BLOCKS] = {line_stream("residual_lines0"), line_stream("residual_lines1")};
    short_stream sums_lines[BLOCKS] = {short_stream("sums_lines0"), short_stream("sums_lines1")};
    line_stream output_lines[BLOCKS] = {line_stream("output_lines0"), line_stream("output_lines1")};
#else
    line_stream residual_lines[BLOCKS] = {line_stream("residual_lines0")};
    short_stream sums_lines[BLOCKS] = {short_stream("sums_lines0")};
    line_stream output_lines[BLOCKS] = {line_stream("output_lines0")};
#endif
    acts_stream acts("acts");
    sums_stream sums("sums");
    table_stream table("table");
    done_stream done_input("done_input"), done_residual("done_residual");
    window_blocks window("window");
    weight_blocks weight_memory("weights");
    params_blocks params("params");
    vector_side vector;
    peer_side peers;
#if ENGINE_URAM
#pragma HLS bind_storage variable = window type = ram_s2p impl = uram
#pragma HLS bind_storage variable = weight_memory type = ram_s2p impl = uram
#else
#pragma HLS bind_storage variable = window type = ram_s2p impl = bram
#pragma HLS bind_storage variable = weight_memory type = ram_s2p impl = bram
#endif
#if ENGINE_ELEMENT != 0
#pragma HLS bind_storage variable = sums type = fifo impl = srl
#endif
#if ENGINE_OUT_CHANNELS == 32
#pragma HLS bind_storage variable = params type = ram_s2p impl = lutram
#else
#pragma HLS bind_storage variable = params type = ram_s2p impl = bram
#endif

    DATAFLOW_BEGIN(engine);
    PROCESS(engine, fetch(commands, count, jobs, vector));
#if ENGINE_CUS > 1
    PROCESS(engine, receive_from_peers(from_peers, count, peers));
#else
    static_cast<void>(from_peers);
#endif
    PROCESS(engine, load_input(jobs.input, count, input, done_input, peers, input_beats, vector));
    PROCESS(engine, fill_window(jobs.window, count, input_beats, window));
    PROCESS(engine, load_weights(jobs.weights, count, weights, map_lines, weight_memory, params, table, vector));
    PROCESS(engine, load_residual(jobs.residual, count, residual, done_residual, peers, residual_lines, sums_lines,
                                  map_lines, vector));
    PROCESS(engine, feed(jobs.feed, count, window, acts));
    PROCESS(engine, mac_array(jobs.mac, count, acts, weight_memory, sums));
    PROCESS(engine, epilogue(jobs.epilogue, count, sums, params, table, residual_lines, sums_lines, output_lines));
    VECTOR_PROCESSES(engine, vector);
    PROCESS(engine, store(jobs.store, count, output_lines, output, done_input, done_residual, to_peers, vector));
}

#if ENGINE_CUS == 1
// Of a CU that is alone.
inline void run_list(command_port_t commands, uint32_t count, weight_port_t weights, input_port_t input,
                     input_port_t residual, port_t output) {
#pragma HLS inline
    peer_stream none;
    run_list(commands, count, weights, input, residual, output, none, none);
}
#endif

}  // namespace engine
