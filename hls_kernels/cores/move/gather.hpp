// Gather: rows or elements of a table by an index tensor. Part of the core move.
#pragma once
#include "command.hpp"
#include "lib/beats.hpp"
#include "lib/bounds.hpp"
#include "lib/nest.hpp"
#include "lib/vector.hpp"
#include "narrow.hpp"
#include "rows.hpp"

namespace fpga {

// Every index is checked before it is used; elements whose index is outside the table are left as they were.
inline uint32_t gather(const gather_command& c, const vec16*, vec16* arena, const vec16* weights, uint32_t slice,
                       uint32_t slices) {
    loop_nest n = {};
    n.dims = 4;
dimensions:
    for (int d = 0; d < 4; d++) {
        n.size[d] = c.dims[d];
        n.stride[d][0] = c.out_stride[d];
        n.stride[d][1] = c.table_stride[d];
        n.stride[d][2] = c.index_stride[d];
    }
    simplify(n);
    const operand_region region = {arena, weights, c.table_in_weights != 0};
    const int last = n.dims - 1;
    // Along the innermost dimension one index holds for a run of elements; or each has its own, and a run is one long.
    const bool shared = n.stride[last][2] == 0;
    const int outer = shared ? last : n.dims;
    const int32_t length = shared ? n.size[last] : 1;
    const int64_t to_step = n.stride[last][0], from_step = n.stride[last][1];
    const bool contiguous = shared && to_step == 1 && from_step == 1;
    const int64_t count = iterations(n, outer), end = slice_begin(count, slice + 1, slices);
    int64_t i = slice_begin(count, slice, slices);
    if (i >= end) return STATUS_OK;
    uint32_t status = STATUS_OK;
    nest_position p = position_at(n, outer, i);
    row_writer rows_out;
    beat_writer elements_out;
runs:
    for (; i < end; i++, advance(n, outer, p)) {
#pragma HLS loop_tripcount min = 1 max = 1024
        const int32_t index = int_at(arena, c.index + p.offset[2]);
        if (index < 0 || index >= c.limit) {
            status = STATUS_INDEX_RANGE;
            continue;
        }
        const int64_t from = c.table + p.offset[1] + static_cast<int64_t>(index) * c.row_stride;
        const int64_t to = c.output + p.offset[0];
        if (c.format == FORMAT_BF16 || c.format == FORMAT_F16)
            move_narrow_row<2>(elements_out, arena, to, to_step, region, from, from_step, length);
        else if (c.format != FORMAT_F32)
            move_narrow_row<1>(elements_out, arena, to, to_step, region, from, from_step, length);
        else if (contiguous)
            copy_row(rows_out, arena, to, region, from, length);
        else
            move_elements(elements_out, arena, to, to_step, region, from, from_step, length);
    }
    rows_out.flush(arena);
    elements_out.flush(arena);
    return status;
}

#ifndef __SYNTHESIS__
template <>
struct redirection<gather_command> {
    static constexpr bool POSSIBLE = true;
    static void apply(gather_command& c, const windows& elsewhere) {
        const int32_t bytes = bytes_of(c.format);
        elsewhere.redirect(c.index);
        elsewhere.redirect_elements(bytes, c.output);
        if (!c.table_in_weights) elsewhere.redirect_elements(bytes, c.table);
    }
};

inline void gather_bounds(const gather_command& c, bounds& b) {
    b.require(c.limit >= 1, "has a table without rows");
    for (int d = 0; d < 4; d++) {
        b.require(c.dims[d] >= 1, "has a dimension below 1");
        b.require(c.dims[d] == 1 || c.out_stride[d] > 0, "writes its output backwards, or more than once");
    }
    b.require(c.format >= FORMAT_F32 && c.format <= FORMAT_I8, "has an unknown format");
    if (!b.ok()) return;
    const int32_t bytes = bytes_of(c.format);
    b.read(c.table_in_weights ? REGION_WEIGHTS : REGION_ARENA, c.table,
           strided_extent<extent>(c.dims, c.table_stride, 4).dim(c.limit, c.row_stride), bytes);
    b.read(REGION_ARENA, c.index, strided_extent<extent>(c.dims, c.index_stride, 4));
    b.write(REGION_ARENA, c.output, strided_extent<extent>(c.dims, c.out_stride, 4), bytes);
}
#endif

}  // namespace fpga
