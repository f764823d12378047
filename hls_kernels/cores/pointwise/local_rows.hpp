// The local rows of pointwise: registers, constants, and a block of each stream. On a card a row is made of whole vectors,
// to which a stream's rows are put together; a processor reads and writes a row at any place.
#pragma once
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/vector.hpp"
#include "tiles.hpp"

namespace fpga {

constexpr int POINTWISE_REGISTERS = 8;
constexpr int POINTWISE_STREAMS = 10;
// Operand codes of the instruction word.
constexpr int FIRST_STREAM = 16;
constexpr int FIRST_CONSTANT = 32;
constexpr int POINTWISE_OPERANDS = FIRST_CONSTANT + tile::POINTWISE_CONSTANTS;

struct micro_instruction {
    int32_t op, to, a, b, c;
};

#ifdef __SYNTHESIS__

constexpr bool STREAMS_IN_PLACE = false;
constexpr int BLOCK_ELEMENTS = tile::POINTWISE_BLOCK;
typedef vec16 local_element;  // what a local row is made of
constexpr int LOCAL_ROW = BLOCK_ELEMENTS / VEC;
typedef local_element micro_operands[POINTWISE_OPERANDS][LOCAL_ROW];

// Fills a local row from its beginning on.
class row_filler {
public:
    FPGA_INLINE explicit row_filler(local_element* local) : local_(local) { out_.begin(local_, 0); }
    // `length` floats of a region.
    FPGA_INLINE void row(const operand_region& region, int64_t at, int32_t length) {
        row_reader<operand_region> in(region, at);
        if (region.in_weights)
            whole(in, region.weights, length / VEC);
        else
            whole(in, region.arena, length / VEC);
        if (length % VEC > 0) out_.append(local_, in.next(length % VEC), length % VEC);
    }
    FPGA_INLINE void repeat(float value, int32_t length) {
        local_element* local = local_;
    repeat:
        for (int32_t i = 0; i < length / VEC; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
            out_.append(local, vec16(value));
        }
        out_.append(local, vec16(value), length % VEC);
    }
    // `count` floats `step` apart.
    FPGA_INLINE void column(const operand_region& region, int64_t at, int64_t step, int32_t count) {
        local_element* local = local_;
    column:
        for (int32_t i = 0; i < count; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 256
            out_.append(local, vec16(region.at(at + i * step)), 1);
        }
    }
    FPGA_INLINE void one(float value) { out_.append(local_, vec16(value), 1); }
    FPGA_INLINE void end() { out_.flush(local_); }

private:
    FPGA_INLINE void whole(row_reader<operand_region>& in, const vec16* region, int32_t vectors) {
        local_element* local = local_;
    row:
        for (int32_t i = 0; i < vectors; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
            out_.append(local, in.next(region));
        }
    }
    local_element* local_;
    row_writer out_;
};

FPGA_INLINE float local_at(const local_element* local, int32_t i) { return local[i / VEC][i % VEC]; }
FPGA_INLINE void put_constant(local_element* local, int32_t vector, float value) { local[vector] = vec16(value); }

// Floats [from, from + length) of a local row to `at` and the places behind it.
inline void scatter_row(row_writer& out, vec16* arena, int64_t at, const local_element* local, int32_t from,
                        int32_t length) {
    out.begin(arena, at);
    row_reader<one_region> in({local}, from);
row:
    for (int32_t i = 0; i < length / VEC; i++) {
#pragma HLS pipeline II = 1
#pragma HLS loop_tripcount min = 1 max = 16
        out.append(arena, in.next());
    }
    if (length % VEC > 0) out.append(arena, in.next(length % VEC), length % VEC);
}

#else

constexpr bool STREAMS_IN_PLACE = true;
// A processor takes as long to begin an instruction as for several vectors of it.
constexpr int BLOCK_ELEMENTS = 4 * tile::POINTWISE_BLOCK;
typedef float local_element;
constexpr int LOCAL_ROW = BLOCK_ELEMENTS + VEC;     // the last vector of a row may begin in the last float
typedef float* micro_operands[POINTWISE_OPERANDS];  // the local row, or the place in a region

class row_filler {
public:
    FPGA_INLINE explicit row_filler(local_element* local) : local_(local) {}
    FPGA_INLINE void row(const operand_region& region, int64_t at, int32_t length) {
        const vec16* there = region.region();
        for (int32_t i = 0; i < length; i += VEC) store(local_, to_ + i, load_some(there, at + i, length - i));
        to_ += length;
    }
    FPGA_INLINE void repeat(float value, int32_t length) {
        const vec16 x(value);
        for (int32_t i = 0; i < length; i += VEC) store(local_, to_ + i, x);
        to_ += length;
    }
    FPGA_INLINE void column(const operand_region& region, int64_t at, int64_t step, int32_t count) {
        const vec16* there = region.region();
        for (int32_t i = 0; i < count; i++) local_[to_ + i] = scalar_at(there, at + i * step);
        to_ += count;
    }
    FPGA_INLINE void one(float value) { local_[to_++] = value; }
    FPGA_INLINE void end() {}

private:
    local_element* local_;
    int32_t to_ = 0;
};

FPGA_INLINE float local_at(const local_element* local, int32_t i) { return local[i]; }
FPGA_INLINE void put_constant(local_element* local, int32_t vector, float value) {
    store(local, vector * VEC, vec16(value));
}

inline void scatter_row(row_writer&, vec16* arena, int64_t at, const local_element* local, int32_t from,
                        int32_t length) {
    for (int32_t i = 0; i < length; i += VEC) store_some(arena, at + i, load(local, from + i), length - i);
}

#endif

static_assert(BLOCK_ELEMENTS % VEC == 0, "a block is a whole number of vectors");

}  // namespace fpga
