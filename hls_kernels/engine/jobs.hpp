// A command on its way to the processes: of the record and the plan each gets the fields that it uses, a word of 32 bits
// each, one behind the other. So a stream of commands is a memory of 32 bits, and a process has registers for what it uses.
//
// A process that needs another field names it in its list; what is not named is not there (in g++ it is a number that is
// wrong for anything).
#pragma once
#include "sim/dataflow.hpp"

#include "plan.hpp"

namespace engine {

// Words that such a stream holds: of the longest list one command, of most two.
constexpr int JOB_WORDS = 64;
// Of mac_flags, those that an engine of these elements has.
constexpr int MAC_FLAG_BITS = WIDE ? 5 : 4;

// A place in a list, and how many commands that has.
typedef number<COMMAND_BITS> command_index_t;
inline command_index_t commands_of(uint32_t count) { return static_cast<ap_uint<COMMAND_BITS>>(count); }

// How many bits a field has; one that can be negative has a sign beside them.
// \tparam BITS Bits of the field without its sign.
template <int BITS>
struct bits {};
// \tparam BITS Bits of the field without its sign.
template <int BITS>
struct with_sign {};

typedef hls::stream<uint32_t, JOB_WORDS> job_words;

// Visits of the fields of a list: to write them, and to read them again.
struct job_writer {
    job_words& to;
    // \tparam WIDTH Width of the field, bits or with_sign.
    template <class WIDTH>
    void operator()(int32_t x, WIDTH) {
#pragma HLS inline
        to.write(static_cast<uint32_t>(x));
    }
    // \tparam WIDTH Width of the field, bits or with_sign.
    template <class WIDTH>
    void operator()(uint32_t x, WIDTH) {
#pragma HLS inline
        to.write(x);
    }
    void operator()(float x, bits<32>) {
#pragma HLS inline
        to.write(bits_of(x));
    }
};
struct job_reader {
    job_words& from;
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t& x, bits<BITS>) {
#pragma HLS inline
        x = static_cast<int32_t>(static_cast<ap_uint<BITS>>(from.read()));
    }
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t& x, with_sign<BITS>) {
#pragma HLS inline
        x = static_cast<int32_t>(static_cast<ap_int<BITS + 1>>(from.read()));
    }
    void operator()(uint32_t& x, bits<32>) {
#pragma HLS inline
        x = from.read();
    }
    void operator()(float& x, bits<32>) {
#pragma HLS inline
        x = float_of_bits(from.read());
    }
    void operator()(bool& x, bits<1>) {
#pragma HLS inline
        x = (from.read() & 1) != 0;
    }
};
// Takes the bits that a field has, before the plan is made of them.
struct job_narrower {
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t& x, bits<BITS>) {
#pragma HLS inline
        x = static_cast<int32_t>(static_cast<ap_uint<BITS>>(x));
    }
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t& x, with_sign<BITS>) {
#pragma HLS inline
        x = static_cast<int32_t>(static_cast<ap_int<BITS + 1>>(x));
    }
    void operator()(uint32_t&, bits<32>) {}
    void operator()(float&, bits<32>) {}
};

// Whether all fields of a list are as narrow as it says, for the check of a command.
struct job_check {
    bool fits;
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t x, bits<BITS>) {
        fits = fits && (BITS >= 32 || (x >= 0 && x >> (BITS < 31 ? BITS : 31) == 0));
    }
    // \tparam BITS Bits of the field without its sign.
    template <int BITS>
    void operator()(int32_t x, with_sign<BITS>) {
        fits = fits && (x >> (BITS < 31 ? BITS : 31) == 0 || x >> (BITS < 31 ? BITS : 31) == -1);
    }
    void operator()(uint32_t, bits<32>) {}
    void operator()(float, bits<32>) {}
};

// \tparam FIELDS List of fields, with a static function visit(visitor, job).
template <class FIELDS>
class job_stream {
public:
    explicit job_stream(const char* name) : words_(name) {}
    void write(const job_t& job) {
#pragma HLS inline
        job_writer f = {words_};
        f(job.idle ? 3 : job.runs | job.vector << 1, bits<2>());
        if (job.runs) FIELDS::visit(f, job);
    }
    job_t read() {
#pragma HLS inline
        job_t job;
#ifndef __VITIS_HLS__
        wrong(job);
#endif
        job_reader f = {words_};
        int32_t what;
        f(what, bits<2>());
        job.runs = what == 1;
        job.vector = what == 2;
        job.idle = what == 3;
        if (job.runs) FIELDS::visit(f, job);
        return job;
    }

private:
#ifndef __VITIS_HLS__
    static void wrong(job_t& job) {
        for (uint32_t* x = reinterpret_cast<uint32_t*>(&job); x < reinterpret_cast<uint32_t*>(&job + 1); x++) *x = 1237;
    }
#endif
    job_words words_;
};

// Where the passes of a command lead (plan.hpp, next_pass).
// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_passes(F& f, JOB& j) {
#pragma HLS inline
    f(j.p.heads, bits<SMALL_BITS>());
    f(j.p.bands, bits<SIZE_BITS>());
    f(j.p.sets, bits<BLOCK_BITS>());
    f(j.c.images, bits<SMALL_BITS>());
    f(j.p.sets_outside, bits<1>());
}
// And how large they are.
// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_sizes(F& f, JOB& j) {
#pragma HLS inline
    f(j.p.groups, bits<STEP_BITS>());
    f(j.p.groups_last, bits<STEP_BITS>());
    f(j.c.set_tiles, bits<TILE_BITS>());
    f(j.p.tiles_last, bits<TILE_BITS>());
}
// Of a process that loads the window, or fills it.
// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_windows(F& f, JOB& j) {
#pragma HLS inline
    f(j.p.heads, bits<SMALL_BITS>());
    f(j.p.window_loads, bits<LOAD_BITS>());
    f(j.p.bands, bits<SIZE_BITS>());
    f(j.c.in_blocks, bits<BLOCK_BITS>());
    f(j.c.in_height, bits<SIZE_BITS>());
    f(j.c.padding[0], with_sign<SIZE_BITS>());
    f(j.p.input_rows, bits<SIZE_BITS>());
    f(j.p.band_input_rows, bits<SIZE_BITS>());
    f(j.p.band_elements, bits<ELEMENT_BITS>());
    f(j.p.top_elements, with_sign<ELEMENT_BITS>());
    f(j.p.window_elements, bits<ELEMENT_BITS>());
    f(j.p.map_elements, bits<ELEMENT_BITS>());
    f(j.p.pixel_shift, bits<3>());
}

struct input_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_windows(f, j);
        f(j.c.input, bits<32>());
        f(j.c.input_after, bits<SIZE_BITS>());
        f(j.c.peers, bits<3>());
        for (int d = 0; d < 2; d++) {
#pragma HLS unroll
            f(j.c.heads[d], bits<SMALL_BITS>());
            f(j.c.input_head[d], bits<32>());
        }
        f(j.c.images, bits<SMALL_BITS>());
        f(j.c.input_image, bits<32>());
        f(j.p.in_plane, bits<PIXEL_BITS>());
        f(j.p.in_lines, bits<ELEMENT_BITS>());
    }
};
struct window_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_windows(f, j);
        f(j.c.in_width, bits<POSITION_BITS>());
        f(j.c.stride[0], bits<SMALL_BITS>());
        f(j.c.stride[1], bits<SMALL_BITS>());
        f(j.c.padding[1], bits<SMALL_BITS>());
        f(j.c.pixel_channels, bits<5>());
        f(j.c.pad, with_sign<31>());
        f(j.p.pitch, bits<SIZE_BITS>());
        f(j.p.planes[0], bits<SMALL_BITS>());
        f(j.p.planes[1], bits<SMALL_BITS>());
        f(j.p.plane, bits<POSITION_BITS>());
        f(j.p.row_plane, bits<POSITION_BITS>());
        f(j.p.block_rows, bits<ROW_BITS>());
        f(j.p.tap_phase, bits<SMALL_BITS>());
        f(j.p.row_elements, bits<PIXEL_BITS>());
    }
};
struct weight_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        f(j.p.heads, bits<SMALL_BITS>());
        f(j.p.set_loads, bits<LOAD_BITS>());
        f(j.p.sets, bits<BLOCK_BITS>());
        f(j.c.set_tiles, bits<TILE_BITS>());
        f(j.p.tiles_last, bits<TILE_BITS>());
        f(j.p.set_weights, bits<ELEMENT_BITS>());
        f(j.p.last_weights, bits<ELEMENT_BITS>());
        f(j.c.operation, bits<1>());
        f(j.c.weight_kind, bits<2>());
        f(j.c.weight, bits<32>());
        f(j.c.params, bits<32>());
        f(j.c.out_blocks, bits<BLOCK_BITS>());
        f(j.c.tile_blocks, bits<2>());
        f(j.c.tile_depth, bits<BLOCK_BITS>());
        f(j.p.taps, bits<SMALL_BITS>());
        f(j.p.steps, bits<STEP_BITS>());
        f(j.c.flags, bits<MAC_FLAG_BITS>());
        f(j.c.pad, with_sign<31>());
        if (FUNCTIONS) f(j.c.table, bits<32>());
    }
};
struct feed_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_passes(f, j);
        visit_sizes(f, j);
        f(j.p.window_loads, bits<LOAD_BITS>());
        f(j.p.window_passes, bits<LOAD_BITS>());
        f(j.c.operation, bits<1>());
        f(j.c.in_height, bits<SIZE_BITS>());
        f(j.c.in_width, bits<SIZE_BITS>());
        f(j.c.padding[0], with_sign<SIZE_BITS>());
        f(j.p.band_input_rows, bits<SIZE_BITS>());
        f(j.c.pixel_channels, bits<5>());
        f(j.c.pad, with_sign<31>());
        f(j.c.stride[0], bits<SMALL_BITS>());
        f(j.c.dilation[0], bits<SMALL_BITS>());
        f(j.c.in_blocks, bits<BLOCK_BITS>());
        f(j.c.tile_depth, bits<BLOCK_BITS>());
        f(j.c.group_in, bits<SIZE_BITS>());
        f(j.c.group_out, bits<SIZE_BITS>());
        f(j.p.grouped, bits<1>());
        f(j.p.group_skip, bits<SIZE_BITS>());
        f(j.p.group_rest, bits<SIZE_BITS>());
        f(j.p.columns, bits<SMALL_BITS>());
        f(j.p.taps, bits<SMALL_BITS>());
        f(j.p.pitch, bits<SIZE_BITS>());
        f(j.p.planes[0], bits<SMALL_BITS>());
        f(j.p.planes[1], bits<SMALL_BITS>());
        f(j.p.plane, bits<POSITION_BITS>());
        f(j.p.block_rows, bits<ROW_BITS>());
        f(j.p.group_step[0], bits<SIZE_BITS>());
        f(j.p.group_step[1], bits<SIZE_BITS>());
        f(j.p.row_step, bits<SIZE_BITS>());
        f(j.p.tap_stride, bits<SMALL_BITS>());
        f(j.p.tap_step, bits<SMALL_BITS>());
        for (int d = 0; d < 2; d++) {
#pragma HLS unroll
            f(j.p.tap_quotient[d], bits<SMALL_BITS>());
            f(j.p.tap_rest[d], bits<SMALL_BITS>());
        }
        f(j.p.tap_x, with_sign<SMALL_BITS>());
        f(j.p.tap_column, with_sign<SMALL_BITS>());
        f(j.p.tap_phase, bits<SMALL_BITS>());
    }
};
struct mac_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_passes(f, j);
        visit_sizes(f, j);
        f(j.p.set_loads, bits<LOAD_BITS>());
        f(j.p.set_passes, bits<LOAD_BITS>());
        f(j.c.operation, bits<1>());
        f(j.p.steps, bits<STEP_BITS>());
    }
};

// Of the processes behind the array: the way of a pass's results (processes/out_walk.hpp, tile_walk.hpp).
// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_results(F& f, JOB& j) {
#pragma HLS inline
    visit_passes(f, j);
    visit_sizes(f, j);
    f(j.c.out_blocks, bits<BLOCK_BITS>());
    f(j.c.tile_blocks, bits<2>());
    f(j.c.flags, bits<MAC_FLAG_BITS>());
    f(j.c.residual, bits<32>());
    f(j.c.sums, bits<32>());
}
// Of those that go through the planes of the output.
// \tparam F Visitor, called with a field and its width.
// \tparam JOB Job, constant or not.
template <class F, class JOB>
void visit_planes(F& f, JOB& j) {
#pragma HLS inline
    visit_results(f, j);
    f(j.p.out_pixels, bits<PIXEL_BITS>());
    f(j.p.out_plane, bits<PIXEL_BITS>());
    f(j.p.band_pixels, bits<PIXEL_BITS>());
    f(j.p.set_lines, bits<ELEMENT_BITS>());
    f(j.p.set_sums, bits<ELEMENT_BITS>());
    f(j.p.image_lines, bits<ELEMENT_BITS>());
    f(j.p.image_sums, bits<ELEMENT_BITS>());
}
struct residual_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_planes(f, j);
        f(j.p.passes, bits<LOAD_BITS>());
        f(j.p.set_loads, bits<LOAD_BITS>());
        f(j.p.weight_set, bits<ELEMENT_BITS>());
        f(j.c.weight_kind, bits<2>());
        f(j.c.tile_depth, bits<BLOCK_BITS>());
        f(j.c.weight_plane, bits<PIXEL_BITS>());
        f(j.c.weight, bits<32>());
        f(j.c.residual_after, bits<SIZE_BITS>());
        f(j.c.peers, bits<3>());
        f(j.c.weight_after, bits<SIZE_BITS>());
        f(j.c.residual_image, bits<32>());
        for (int d = 0; d < 2; d++) {
#pragma HLS unroll
            f(j.c.heads[d], bits<SMALL_BITS>());
            f(j.c.weight_head[d], bits<32>());
            f(j.c.residual_head[d], bits<32>());
        }
    }
};
struct epilogue_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_results(f, j);
        f(j.p.set_loads, bits<LOAD_BITS>());
        f(j.p.set_passes, bits<LOAD_BITS>());
        f(j.p.tiles, bits<BLOCK_BITS>());
        f(j.p.rows_last, bits<SIZE_BITS>());
        f(j.p.pitch, bits<SIZE_BITS>());
        f(j.p.group_y, bits<5>());
        f(j.p.group_x, bits<5>());
        f(j.c.out_height, bits<SIZE_BITS>());
        f(j.c.out_width, bits<SIZE_BITS>());
        f(j.c.band_rows, bits<SIZE_BITS>());
        f(j.c.weight_kind, bits<2>());
        f(j.c.weight_zero, with_sign<31>());
        f(j.c.zero, with_sign<31>());
        f(j.c.low, with_sign<31>());
        f(j.c.high, with_sign<31>());
        f(j.c.residual_factor, with_sign<31>());
        f(j.c.residual_zero, with_sign<31>());
        f(j.c.middle_factor, with_sign<31>());
        f(j.c.middle_zero, with_sign<31>());
        if (FUNCTIONS) f(j.c.table, bits<32>());
    }
};
struct store_fields {
    // \tparam F Visitor, called with a field and its width.
    // \tparam JOB Job, constant or not.
    template <class F, class JOB>
    static void visit(F& f, JOB& j) {
#pragma HLS inline
        visit_planes(f, j);
        f(j.p.window_loads, bits<LOAD_BITS>());
        f(j.p.window_passes, bits<LOAD_BITS>());
        f(j.c.output, bits<32>());
        f(j.c.output_image, bits<32>());
        for (int d = 0; d < 2; d++) {
#pragma HLS unroll
            f(j.c.heads[d], bits<SMALL_BITS>());
            f(j.c.output_head[d], bits<32>());
        }
    }
};

// The streams of commands, one for each process, so that one may already be at the next.
struct job_streams {
    job_stream<input_fields> input{"jobs of load_input"};
    job_stream<window_fields> window{"jobs of fill_window"};
    job_stream<weight_fields> weights{"jobs of load_weights"};
    job_stream<residual_fields> residual{"jobs of load_residual"};
    job_stream<feed_fields> feed{"jobs of feed"};
    job_stream<mac_fields> mac{"jobs of mac_array"};
    job_stream<epilogue_fields> epilogue{"jobs of epilogue"};
    job_stream<store_fields> store{"jobs of store"};
};

// A command as narrow as the processes' registers; what is left of its plan means nothing.
inline void narrowed(job_t& job) {
#pragma HLS inline
    job_narrower f;
    input_fields::visit(f, job);
    window_fields::visit(f, job);
    weight_fields::visit(f, job);
    residual_fields::visit(f, job);
    feed_fields::visit(f, job);
    epilogue_fields::visit(f, job);
}

// Whether the processes' registers hold what a command counts.
inline bool narrow(const job_t& job) {
    job_check f = {true};
    input_fields::visit(f, job);
    window_fields::visit(f, job);
    weight_fields::visit(f, job);
    residual_fields::visit(f, job);
    feed_fields::visit(f, job);
    mac_fields::visit(f, job);
    epilogue_fields::visit(f, job);
    store_fields::visit(f, job);
    return f.fits;
}

}  // namespace engine
