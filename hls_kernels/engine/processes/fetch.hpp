// Reads the command list, works out each command's plan, and hands both to all processes.
#pragma once
#include <cstring>

#include "../vector/vector.hpp"
#ifdef ENGINE_GENERATED_DECODE
#include "engine_decode.hpp"
#endif

namespace engine {

#ifndef ENGINE_GENERATED_DECODE
constexpr int COMMAND_WORDS = 64;

// xclbin_build writes a decoder that synthesis understands; for benches the record as it lies in memory will do.
inline mac_command decode_mac(const uint32_t words[COMMAND_WORDS]) {
    mac_command c;
    std::memcpy(&c, words, sizeof c);
    return c;
}
#if ENGINE_HAS_VECTOR
inline vector_command decode_vector(const uint32_t words[COMMAND_WORDS]) {
    vector_command c;
    std::memcpy(&c, words, sizeof c);
    return c;
}
#endif
#endif

inline void fetch(command_port_t commands, uint32_t count, job_streams& to, vector_side& vector) {
    bool failed = false;
    if (count) commands.read_request(0, count * COMMAND_WORDS);
fetch_commands:
    for (command_index_t i = 0; i < commands_of(count); i++) {
#pragma HLS loop_tripcount min = 0 max = MOST_COMMANDS
        sim::command(i);
        uint32_t words[COMMAND_WORDS];
#pragma HLS array_partition variable = words complete
        PIPELINED(fetch_words) for (int n = 0; n < COMMAND_WORDS; n++) {
#pragma HLS pipeline II = 1
            ITERATION(fetch_words);
            words[n] = commands.read();
        }
        job_t job;
        job.c = decode_mac(words);
        // Commands behind an unknown one do not run either: they may wait for its result.
        job.vector = ENGINE_HAS_VECTOR && !failed && job.c.opcode == ENGINE_VECTOR;
        job.idle = !failed && job.c.opcode == ENGINE_IDLE;
        failed = failed || (job.c.opcode != ENGINE_MAC && !job.vector && !job.idle);
        job.runs = !failed && !job.vector && !job.idle;
        job.p = plan_t();
        if (job.runs) {
            narrowed(job);
            job.p = plan_of(job.c);
            CYCLES(plan);
        }
        to.input.write(job);
        to.window.write(job);
        to.weights.write(job);
        to.residual.write(job);
        to.feed.write(job);
        to.mac.write(job);
        to.epilogue.write(job);
        to.store.write(job);
#if ENGINE_HAS_VECTOR
        if (job.vector) {
            CYCLES(vector_plan);
            write_jobs(decode_vector(words), static_cast<int32_t>(i), vector);
        }
#endif
    }
    write_end(vector);
}

}  // namespace engine
