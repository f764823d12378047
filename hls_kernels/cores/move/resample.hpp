// Image resize, nearest neighbour or bilinear, vector lanes along channels. Part of the core move.
#pragma once
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/int8/real.hpp"
#include "lib/math.hpp"
#include "lib/vector.hpp"

namespace fpga {

// The two input positions that an output position mixes, and the share of the second.
struct sample {
    int32_t low;
    int32_t high;
    float share;
};

// As PyTorch's upsample kernels compute it, in float.
inline sample sample_at(const resample_command& c, int axis, int32_t i) {
    const int32_t in = axis == 0 ? c.in_height : c.in_width, out = axis == 0 ? c.out_height : c.out_width;
    const float scale = c.scale[axis];
    sample s;
    s.share = 0.0f;
    if (out == in) {  // no neighbour, whose NaN would count
        s.low = i;
        s.high = i;
        return s;
    }
    if (c.mode == RESAMPLE_NEAREST) {
        const float position = static_cast<float>(i) * scale;
        s.low = position < static_cast<float>(in - 1) ? static_cast<int32_t>(position) : in - 1;
        s.high = s.low;
        return s;
    }
    float position = c.align_corners ? static_cast<float>(i) * scale : (static_cast<float>(i) + 0.5f) * scale - 0.5f;
    if (position < 0.0f) position = 0.0f;
    s.low = position < static_cast<float>(in - 1) ? static_cast<int32_t>(position) : in - 1;
    s.high = minimum(s.low + 1, in - 1);
    const float share = position - static_cast<float>(s.low);
    s.share = share < 1.0f ? share : 1.0f;
    return s;
}

// Whether full vectors may be read up to the end of a pixel: its channels are padded to a multiple of 16.
FPGA_INLINE bool resample_reads_whole_vectors(const resample_command& c) {
    return c.in_stride[2] >= round_up(c.channels, VEC);
}

// Where the four pixels lie that one of the output mixes, and their shares.
struct resample_place {
    int64_t corner[4];
    vec16 upper, lower, left, right;
};

FPGA_INLINE vec16 resample_mixed(const vec16 (&corner)[4], const resample_place& p) {
    return p.upper * (p.left * corner[0] + p.right * corner[1]) + p.lower * (p.left * corner[2] + p.right * corner[3]);
}

#ifdef __SYNTHESIS__
// A pixel of floats: each corner and the result goes beat by beat.
inline void resample_floats(const resample_command& c, row_writer& out, vec16* arena, const resample_place& p,
                            int64_t output) {
    typedef row_reader<one_region> reader;
    reader in[4] = {reader({arena}, p.corner[0]), reader({arena}, p.corner[1]), reader({arena}, p.corner[2]),
                    reader({arena}, p.corner[3])};
#pragma HLS array_partition variable = in complete
    out.begin(arena, output);
vectors:
    for (int32_t ch = 0; ch < c.channels; ch += VEC) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 1 max = 16
#pragma HLS dependence variable = arena type = inter false
        const int32_t lanes = c.channels - ch;
        vec16 corner[4];
#pragma HLS array_partition variable = corner complete
        const int corners = c.mode == RESAMPLE_NEAREST ? 1 : 4;
    corners:
        for (int k = 0; k < 4; k++) {
#pragma HLS unroll
            corner[k] = vec16(0.0f);
            if (k < corners) corner[k] = in[k].next(lanes);
        }
        out.append(arena, corners == 4 ? resample_mixed(corner, p) : corner[0], lanes);
    }
}
#endif

// A pixel of floats or bytes, vector by vector where it lies.
inline void resample_pixel(const resample_command& c, const real_input& in, const real_output& out, vec16* arena,
                           const resample_place& p, int64_t output, bool whole_vectors) {
vectors_of_bytes:
    for (int32_t ch = 0; ch < c.channels; ch += VEC) {
#pragma HLS pipeline off
#pragma HLS loop_tripcount min = 1 max = 16
        const int32_t lanes = minimum(c.channels - ch, VEC), read = whole_vectors ? VEC : lanes;
        vec16 corner[4];
        const int corners = c.mode == RESAMPLE_NEAREST ? 1 : 4;
        UNROLL for (int k = 0; k < 4; k++) {
#pragma HLS unroll
            corner[k] = vec16(0.0f);
            if (k < corners) corner[k] = load_reals(arena, p.corner[k] + ch, read, in);
        }
        vec16 y = corner[0];
        if (corners == 4) y = resample_mixed(corner, p);
        store_reals(arena, output + ch, y, lanes, out);
    }
}

// A work item is an output row.
inline uint32_t resample(const resample_command& c, const vec16*, vec16* arena, const vec16*, uint32_t slice,
                         uint32_t slices) {
    const int64_t count = static_cast<int64_t>(c.batch) * c.out_height, end = slice_begin(count, slice + 1, slices);
    const bool whole_vectors = resample_reads_whole_vectors(c);
    const real_input in = real_input_of(c);
    const real_output out = real_output_of(c);
    row_writer rows_out;
rows:
    for (int64_t i = slice_begin(count, slice, slices); i < end; i++) {
#pragma HLS loop_tripcount min = 1 max = 224
        const int64_t n = i / c.out_height;
        const int32_t y = static_cast<int32_t>(i % c.out_height);
        const sample row = sample_at(c, 0, y);
        const int64_t image = c.input + n * c.in_stride[0];
        const int64_t upper = image + static_cast<int64_t>(row.low) * c.in_stride[1];
        const int64_t lower = image + static_cast<int64_t>(row.high) * c.in_stride[1];
        const int64_t output = c.output + n * c.out_stride[0] + static_cast<int64_t>(y) * c.out_stride[1];
    pixels:
        for (int32_t x = 0; x < c.out_width; x++) {
#pragma HLS loop_tripcount min = 1 max = 224
            const sample column = sample_at(c, 1, x);
            const int64_t left = static_cast<int64_t>(column.low) * c.in_stride[2];
            const int64_t right = static_cast<int64_t>(column.high) * c.in_stride[2];
            const resample_place p = {{upper + left, upper + right, lower + left, lower + right},
                                      vec16(1.0f - row.share),
                                      vec16(row.share),
                                      vec16(1.0f - column.share),
                                      vec16(column.share)};
            const int64_t to = output + static_cast<int64_t>(x) * c.out_stride[2];
#ifdef __SYNTHESIS__
            if (in.format == FORMAT_F32 && out.format == FORMAT_F32) {
                resample_floats(c, rows_out, arena, p, to);
                continue;
            }
#endif
            resample_pixel(c, in, out, arena, p, to, whole_vectors);
        }
    }
    rows_out.flush(arena);
    return STATUS_OK;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<resample_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(resample_command& c, const windows& elsewhere) {
        elsewhere.redirect_elements(bytes_of(c.in_format), c.input);
        elsewhere.redirect_elements(bytes_of(c.out_format), c.output);
    }
};

inline void resample_bounds(const resample_command& c, bounds& b) {
    b.require(c.mode == RESAMPLE_NEAREST || c.mode == RESAMPLE_BILINEAR,
              "has a mode that is neither nearest nor bilinear");
    b.require(c.batch >= 1 && c.channels >= 1 && c.in_height >= 1 && c.in_width >= 1 && c.out_height >= 1 &&
                  c.out_width >= 1,
              "has a dimension below 1");
    b.require(c.scale[0] >= 0.0f && c.scale[1] >= 0.0f && c.scale[0] < FLOAT_INFINITY && c.scale[1] < FLOAT_INFINITY,
              "has a scale that is negative or not finite");
    real_bounds(c, b);
    if (!b.ok()) return;
    const int64_t read = resample_reads_whole_vectors(c) ? round_up(c.channels, VEC) : c.channels;
    b.read(REGION_ARENA, c.input, pixels_extent(read, c.batch, c.in_height, c.in_width, c.in_stride),
           bytes_of(c.in_format));
    b.write(REGION_ARENA, c.output, pixels_extent(c.channels, c.batch, c.out_height, c.out_width, c.out_stride),
            bytes_of(c.out_format));
}
#endif

}  // namespace fpga
