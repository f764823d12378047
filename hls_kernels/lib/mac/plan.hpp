// The tiles of the MAC array that software works on: so many pixels by so many vectors as suit the registers of an
// instruction set. That is the one that the sources are compiled for, or, with FPGA_PLAN_LANES and FPGA_PLAN_REGISTERS,
// another: then every tile shape can be run, and its numbers be tested, on any host, if not at full speed.
#pragma once
#include "lib/vector.hpp"
#include "tiles.hpp"

#ifndef __SYNTHESIS__

namespace fpga {

#ifdef FPGA_PLAN_LANES
constexpr int PLAN_PARTS = VEC / FPGA_PLAN_LANES;
constexpr int PLAN_REGISTERS = FPGA_PLAN_REGISTERS;
#else
constexpr int PLAN_PARTS = PARTS;
constexpr int PLAN_REGISTERS = NATIVE_REGISTERS;
#endif

// Rows of the tile that suits software best: its sums, a step's weights and an input value fill the registers.
// \tparam VECTORS Vectors of 16 output channels of the tile.
template <int VECTORS>
constexpr int SOFTWARE_ROWS = PLAN_PARTS > 1 ? (PLAN_REGISTERS - PLAN_PARTS - 1) / PLAN_PARTS
                              : VECTORS == 4 ? 6
                              : VECTORS == 3 ? 8
                              : VECTORS == 2 ? 12
                                             : 7;

// The same for a panel of so many vectors.
inline int32_t array_rows(int32_t vectors) {
    switch (vectors) {
        case 1: return SOFTWARE_ROWS<1>;
        case 2: return SOFTWARE_ROWS<2>;
        case 3: return SOFTWARE_ROWS<3>;
        default: return SOFTWARE_ROWS<4>;
    }
}

// How many vectors of a panel a tile of so many rows takes at once: all, or as many as the registers hold sums of.
// Weights that meet a single row need no register.
// \tparam ROWS Rows of the register tile: pixels or matrix rows.
template <int ROWS>
constexpr int tile_vectors(int vectors) {
    const int registers = (ROWS * vectors + (ROWS > 1 ? vectors : 0)) * PLAN_PARTS + 1;
    if (registers <= PLAN_REGISTERS) return vectors;
    return vectors % 2 == 0 ? tile_vectors<ROWS>(vectors / 2) : 1;
}

}  // namespace fpga

#endif
