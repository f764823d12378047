// out = factor * in, as a dataflow region: load, multiply and store work at the same time, each on another part of the data.
#include "sim/dataflow.hpp"

struct beat {
    float lanes[16];
};
typedef hls::stream<beat, 16> beats;

static void load(hls::burst_maxi<beat> in, int count, beats& loaded) {
    in.read_request(0, count);
    PIPELINED(load_beats)
    for (int i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
        ITERATION(load_beats);
        loaded.write(in.read());
    }
}

static void multiply(beats& loaded, float factor, int count, beats& scaled) {
    PIPELINED(multiply_lanes)
    for (int i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
        ITERATION(multiply_lanes);
        beat x = loaded.read();
    lanes:
        for (int lane = 0; lane < 16; lane++) {
#pragma HLS unroll
            x.lanes[lane] *= factor;
        }
        scaled.write(x);
    }
}

static void store(beats& scaled, int count, hls::burst_maxi<beat> out) {
    out.write_request(0, count);
    PIPELINED(store_beats)
    for (int i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
        ITERATION(store_beats);
        out.write(scaled.read());
    }
    out.write_response();
}

extern "C" void scale(hls::burst_maxi<beat> in, hls::burst_maxi<beat> out, float factor, int count) {
#pragma HLS INTERFACE m_axi port = in bundle = gmem0 max_read_burst_length = 64
#pragma HLS INTERFACE m_axi port = out bundle = gmem1 max_write_burst_length = 64
#pragma HLS dataflow
    beats loaded("loaded"), scaled("scaled");
    DATAFLOW_BEGIN(scale);
    PROCESS(scale, load(in, count, loaded));
    PROCESS(scale, multiply(loaded, factor, count, scaled));
    PROCESS(scale, store(scaled, count, out));
}
