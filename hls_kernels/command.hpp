// The command record: lowering writes it, and a core reads it. This file is its only definition.
//
// A command is COMMAND_WORDS 32-bit words (four 512-bit bus beats). `<name>_command`, in the record.hpp of the core that
// executes it, gives the meaning of the words for the opcode OP_<NAME>. Fields lie one after the other, and unused words are
// zero. The package xclbin_build parses the structs (one scalar or array field a line, int32_t, uint32_t, place_t or float), writes
// the decoders from them and puts the table into the xclbin's manifest, where fpga_dynamo finds it.
//
// Units: every offset and stride counts elements of the operand that it belongs to. Elements have 4 bytes, float or int32,
// unless the record says otherwise. If an operand may have other elements, a field names them (element_format). Operands
// of all widths begin at a multiple of their elements. Offsets are relative to the base of a region:
//   `arena`     activations; the first 64 bytes hold the status record, see STATUS_*.
//   `weights`   packed parameters, read only.
//   `commands`  the command list, followed by micro-programs and their constants.
// An offset that is ABSENT names no operand. `slices` is the number of independent parts of the command that are worth
// running in parallel. A core must give the same result for any (slice, slices). `slices` is SLICES_OF_STREAM in a command
// that is part of a stream (streams_command).
#pragma once
#include <cstdint>

#include "cores/attention/record.hpp"
#include "cores/conv2d/record.hpp"
#include "cores/conv2d_int8/record.hpp"
#include "cores/fft/record.hpp"
#include "cores/gemm/record.hpp"
#include "cores/gemm_bf16/record.hpp"
#include "cores/gemm_int8/record.hpp"
#include "cores/move/record.hpp"
#include "cores/pointwise/record.hpp"
#include "cores/pool/record.hpp"
#include "cores/pool_int8/record.hpp"
#include "cores/quantize/record.hpp"
#include "cores/reduce/record.hpp"
#include "cores/scan/record.hpp"
#include "cores/winograd/record.hpp"
#include "cores/zip/record.hpp"

namespace fpga {

constexpr uint32_t COMMAND_VERSION = 2;  // 1: offsets of narrow operands counted words
constexpr uint32_t COMMAND_WORDS = 64;
constexpr uint32_t ABSENT = 0xffffffffu;
constexpr int32_t SLICES_OF_STREAM = -1;
constexpr int32_t MOST_STREAMS = 32;

enum opcode : int32_t {
    OP_CONV2D = 1,
    OP_DEPTHWISE = 2,
    OP_GEMM = 3,
    OP_POOL = 4,
    OP_POINTWISE = 5,
    OP_REDUCE = 6,
    OP_MOVE = 7,
    OP_GATHER = 8,
    OP_RESAMPLE = 9,
    OP_WINOGRAD = 10,
    OP_CONVERT = 11,
    OP_STREAMS = 12,
    OP_ATTENTION = 13,
    OP_SCAN = 14,
    OP_FFT = 15,
    OP_ZIP = 16,
    OP_CONV2D_INT8 = 17,
    OP_DEPTHWISE_INT8 = 18,
    OP_GEMM_INT8 = 19,
    OP_POOL_INT8 = 20,
    OP_QUANTIZE = 21,
    OP_DEQUANTIZE = 22,
    OP_ADD_INT8 = 23,
    OP_LOOKUP_INT8 = 24,
    OP_GEMM_BF16 = 25,
    OP_USER = 64,  // first opcode of cores that a recipe adds
};

// Status record, words 0 and 1 of the arena, written when the list has ended.
enum status : uint32_t {
    STATUS_OK = 0,
    STATUS_BAD_OPCODE = 1,   // word 1: the command's position in the list
    STATUS_INDEX_RANGE = 2,  // gather: an index outside the table
};

// Epilogue activations; a and b are act_a and act_b of the command.
enum activation : int32_t {
    ACT_NONE = 0,
    ACT_RELU = 1,
    ACT_CLAMP = 2,       // min(max(x, a), b)
    ACT_LEAKY_RELU = 3,  // x > 0 ? x : a x
    ACT_SIGMOID = 4,
    ACT_TANH = 5,
    ACT_SILU = 6,
    ACT_GELU = 7,  // with erf
    ACT_GELU_TANH = 8,
    ACT_HARDSWISH = 9,
    ACT_HARDSIGMOID = 10,
    ACT_ELU = 11,  // x > 0 ? x : a (exp(x) - 1)
};

// What the elements of an operand are; those of fewer than 32 bits lie side by side in the order of their addresses.
enum element_format : int32_t {
    FORMAT_F32 = 0,
    FORMAT_BF16 = 1,  // as words: floats that are rounded when they are narrowed
    FORMAT_F16 = 2,
    FORMAT_U8 = 3,  // as words: the bits of an int32, of which narrowing keeps the low ones
    FORMAT_I8 = 4,
    FORMAT_I32 = 5,
};

}  // namespace fpga
