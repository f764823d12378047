// The command of the engine: one convolution, product of matrices, pooling or element-wise step, with its epilogue.
//
// Units: addresses, planes and steps from one image to the next count lines of 64 bytes, relative to the base of their region
// (`maps`: input, residual, sums, output, and a map that is the second operand; `weights`: packed weights, params).
// Maps lie blocked (layout.hpp): [channels / 16][height * width, rounded up to a line][16 channels].
#pragma once
#include <cstdint>

#include "config.hpp"

namespace engine {

enum engine_opcode : int32_t {
    ENGINE_MAC = 48,
    ENGINE_VECTOR = 49,  // vector/record.hpp
    ENGINE_IDLE = 50,    // nothing: of several CUs this one has no part of what the others compute (peers.hpp)
};

// Status record, words 0 and 1 of the first line of the maps, written when the list has ended.
enum engine_status : uint32_t {
    ENGINE_OK = 0,
    ENGINE_BAD_OPCODE = 1,  // word 1: the command's position in the list
};

// How the second operand lies in memory.
enum weight_kind : int32_t {
    WEIGHT_PACKED = 0,      // layout.hpp, in the weights region
    WEIGHT_DIAGONAL = 1,    // depthwise: one weight for each channel and tap, in the weights region
    WEIGHT_MAP = 2,         // a map whose pixels are output channels: K of attention
    WEIGHT_TRANSPOSED = 3,  // a map whose channels are output channels: V of attention
};

// What the array does with an activation and a weight.
enum operation : int32_t {
    OPERATION_MULTIPLY = 0,
    OPERATION_MAXIMUM = 1,  // of the activations of each channel over the taps; there are no weights
};

enum mac_flags : int32_t {
    MAC_RAW = 1,           // the output is the sums, 32 bits each, of which a later command makes the rest
    MAC_MIDDLE = 2,        // the sum is rounded to 8 bits with a scale of its own before the residual is added
    MAC_TABLE = 4,         // the 256-entry table behind the params, or of bfloat16 a function, is applied last
    MAC_MIDDLE_TABLE = 8,  // it is applied to what MAC_MIDDLE rounds: an activation before the residual is added
    MAC_WIDE = 16,         // of bfloat16: the result is left in float32, and lies as sums do, a line for each pixel
};

// Which of the two the outer loop is; the other's memory is filled again each time.
enum mac_order : int32_t {
    ORDER_WINDOWS = 0,  // windows of the input outside: weights are read for each window
    ORDER_SETS = 1,     // sets of weights outside: the input is read for each set
};

// Operands of which other CUs have made a part: before it is read, all CUs must have done with the command that made it.
enum peer_operands : int32_t {
    PEERS_INPUT = 1,
    PEERS_RESIDUAL = 2,  // residual, sums, or other
    PEERS_WEIGHT = 4,
};

constexpr uint32_t NO_OPERAND = 0xffffffffu;

// Result of a pixel and channel, in an int8 engine by the arithmetic of lib/requantize.hpp.
//   `sum = (sums, or without these params.offset) + the products`, in int32.
//   `y = sum * params.scale + params.bias`, in steps of the middle with MAC_MIDDLE, else of the output.
//   `middle = clamp(middle_zero + round(y), -128, 127)` with MAC_MIDDLE.
//   `middle = table[middle]` with MAC_MIDDLE_TABLE.
//   `y = (middle - middle_zero) * middle_factor` with MAC_MIDDLE.
//   `y = y + (residual - residual_zero) * residual_factor` with a residual.
//   `result = clamp(zero + round(y), low, high)`, then `table[result]` with MAC_TABLE.
// Engines of floats compute in float32, round after each operation, and have no offsets.
//   `y = sum * params.scale + params.bias + residual`.
//   `result = y clamped to low and high, rounded to the element`, where low and high are the bits of floats.
//   With MAC_WIDE the result is y clamped. The output then has whole lines of pixels, and no residual, function or out_plane.
//   `result = function(result)` in bfloat16 with MAC_TABLE (function.hpp).
struct mac_command {
    int32_t opcode;
    int32_t slices;
    int32_t operation;
    int32_t weight_kind;
    uint32_t input;
    uint32_t weight;
    uint32_t params;    // [out_blocks][3 lines: offset, scale, bias of 16 channels], then the table in 4 lines
    uint32_t residual;  // or NO_OPERAND
    uint32_t sums;      // partial sums of 32 bits, [image][out_blocks][pixels][16], or NO_OPERAND
    uint32_t output;
    int32_t input_after;  // how many commands before this one the one is that makes the operand; 0: it is there already
    int32_t residual_after;  // of residual and sums
    int32_t weight_after;
    int32_t pixel_channels;  // 16, or of a folded input (layout.hpp) 1, 2, 4 or 8
    int32_t in_blocks;
    int32_t in_height;
    int32_t in_width;
    int32_t out_blocks;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];  // height, width
    int32_t stride[2];
    int32_t padding[2];  // above, left; the rest follows from the output's size. Above: negative to begin lower
    int32_t dilation[2];
    int32_t group_in;  // channels of a group; of one that all belong to, all
    int32_t group_out;
    int32_t tile_blocks;   // blocks of 16 output channels that the array makes at once
    int32_t tile_depth;    // blocks of 16 input channels that such a tile takes
    int32_t weight_plane;  // of a map as second operand: lines of a block of channels
    int32_t heads[2];      // products with second operands of their own
    int32_t images;        // of each of these
    int32_t input_head[2];
    int32_t input_image;
    int32_t weight_head[2];
    int32_t residual_head[2];
    int32_t residual_image;
    int32_t output_head[2];
    int32_t output_image;
    int32_t pad;  // what lies outside the input, as an element's bits: its zero point, or for a maximum the least value
    int32_t weight_zero;  // zero point of a map as second operand
    int32_t flags;
    int32_t zero;
    int32_t low;
    int32_t high;
    int32_t residual_factor;
    int32_t residual_zero;
    int32_t middle_factor;
    int32_t middle_zero;
    int32_t band_rows;  // rows of the output whose input is in the window at a time
    int32_t set_tiles;  // tiles whose weights are there at a time
    int32_t order;
    int32_t peers;      // peer_operands
    int32_t out_plane;  // lines from a block of output and residual to the next; 0: as many as out_height rows take
    uint32_t table;     // of bfloat16: line of the function in the weights region
};

static_assert(sizeof(mac_command) <= 64 * 4, "a command has 64 words");

inline bool has_weights(const mac_command& c) { return c.operation == OPERATION_MULTIPLY; }
inline bool second_operand_is_map(const mac_command& c) {
    return c.weight_kind == WEIGHT_MAP || c.weight_kind == WEIGHT_TRANSPOSED;
}
// Without partial sums a process knows of none; check.hpp refuses a command that has some.
inline bool has_sums(const mac_command& c) { return PARTIAL_SUMS && c.sums != NO_OPERAND; }
inline bool has_residual(const mac_command& c) { return c.residual != NO_OPERAND; }
inline bool has_table(const mac_command& c) { return (c.flags & (MAC_TABLE | MAC_MIDDLE_TABLE)) != 0; }
// What must be read ahead of a command, where the table that was read last is not the same.
inline bool reads_table(const mac_command& c, uint32_t held) { return has_table(c) && (!FUNCTIONS || c.table != held); }
inline bool is_raw(const mac_command& c) { return PARTIAL_SUMS && (c.flags & MAC_RAW) != 0; }
inline bool is_wide(const mac_command& c) { return WIDE && (c.flags & MAC_WIDE) != 0; }
// Numbers of 32 bits take a line a pixel, and so one pixel an iteration of the epilogue.
inline bool stores_32_bits(const mac_command& c) { return is_raw(c) || is_wide(c); }
inline bool pixel_by_pixel(const mac_command& c) { return stores_32_bits(c) || has_sums(c); }

}  // namespace engine
