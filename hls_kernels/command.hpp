// The command record: what lowering writes, what a core reads. The only definition there is.
//
// A command is COMMAND_WORDS 32-bit words (four 512-bit bus beats). `<name>_command` gives the meaning of the
// words for the opcode OP_<NAME>; fields lie one after the other, unused words are zero. xclbin_build parses the
// structs below (one scalar or array field a line, int32_t, uint32_t, place_t or float), writes the decoders from them and
// puts the table into the xclbin's manifest, where fpga_dynamo finds it.
//
// Units: every offset and stride counts floats (4 bytes). Offsets are relative to the base of a region:
//   arena     activations; the first 16 floats hold the status record, see STATUS_*
//   weights   packed parameters, read only
//   commands  the command list, followed by micro-programs and their constants
// An offset that is ABSENT names no operand. `slices` is how many independent parts of the command are worth running
// side by side; a core must give the same result for any (slice, slices). It is SLICES_OF_STREAM in a command that is part
// of a stream (streams_command).
#pragma once
#include <cstdint>

namespace fpga {

constexpr uint32_t COMMAND_VERSION = 1;
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
    OP_USER = 64,  // first opcode of cores that a recipe adds
};

// An offset into the arena. The word holds 32 bits; on the software card the operand may lie in the host's memory instead
// (windows.hpp), any distance from the arena.
#ifdef __SYNTHESIS__
typedef uint32_t place_t;
#else
typedef int64_t place_t;
#endif

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
    ACT_CLAMP = 2,         // min(max(x, a), b)
    ACT_LEAKY_RELU = 3,    // x > 0 ? x : a x
    ACT_SIGMOID = 4,
    ACT_TANH = 5,
    ACT_SILU = 6,
    ACT_GELU = 7,          // with erf
    ACT_GELU_TANH = 8,
    ACT_HARDSWISH = 9,
    ACT_HARDSIGMOID = 10,
    ACT_ELU = 11,          // x > 0 ? x : a (exp(x) - 1)
};

// Two-dimensional convolution, implicit GEMM over k = (kernel row, kernel column, input channel).
// Weights: [group][panel][k][16 * vectors], zero-padded output channels; bias: [group][panels * 16 * vectors].
// Vector stores cover a single group's channels rounded up to 16; with several groups each stores its own and no more.
struct conv2d_command {
    int32_t opcode;
    int32_t slices;
    place_t input;              // arena
    uint32_t weight;            // weights
    uint32_t bias;              // weights, or ABSENT
    place_t residual;           // arena, added before the activation, or ABSENT
    place_t output;             // arena
    int32_t batch;
    int32_t groups;
    int32_t in_channels;        // of one group
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;       // of one group
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];          // height, width
    int32_t stride[2];
    int32_t padding[2];         // above, left; below and right follow from the output's size
    int32_t dilation[2];
    int32_t in_stride[4];       // image, channel, row, column; either the channel's or the column's is 1
    int32_t out_stride[3];      // image, row, column; the channel's is 1
    int32_t residual_stride[3];
    int32_t vectors;            // width of a panel of output channels / 16, from 1 to 4
    int32_t activation;
    float act_a;
    float act_b;
};

// Convolution of 3x3, stride 1, dilation 1, one group, by Winograd's minimal filtering: tiles of tile_size x tile_size
// outputs (2 or 4) from patches of elements = (tile_size + 2)^2 inputs. A result is a sum over its tile's whole patch, so
// that an input that is not finite makes every output of the tile NaN or infinite.
// Weights: G g G^T of cores/winograd/transform.hpp, [panel][element][input channel][16 * vectors], zero-padded output channels;
// bias: [panels * 16 * vectors]. Input pixels are aligned to 16 floats and read to whole vectors.
struct winograd_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    uint32_t weight;
    uint32_t bias;
    place_t residual;
    place_t output;
    int32_t tile_size;
    int32_t batch;
    int32_t in_channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;
    int32_t out_height;
    int32_t out_width;
    int32_t padding[2];         // above, left; below and right follow from the output's size
    int32_t in_stride[3];       // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t vectors;
    int32_t activation;
    float act_a;
    float act_b;
};

// Depthwise convolution (one input and one output channel a group), vector lanes along channels.
// Weights: [kernel row * kernel column][channels rounded up to 16]; bias: [channels rounded up to 16].
struct depthwise_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    uint32_t weight;
    uint32_t bias;
    place_t residual;
    place_t output;
    int32_t batch;
    int32_t channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t padding[2];
    int32_t dilation[2];
    int32_t in_stride[3];       // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t activation;
    float act_a;
    float act_b;
};

// output[i][j][m][n] = act(alpha * sum_k a[i][j][m][k] b[i][j][k][n] + bias[n] + residual[i][j][m][n])
// b in the weights region (b_packed = 1): [panel][k][16 * vectors], shared by the batch. Otherwise in the arena with
// b_stride. bias: [panels * 16 * vectors] in the weights region. Rows of the output are stored rounded up to 16.
struct gemm_command {
    int32_t opcode;
    int32_t slices;
    place_t a;
    place_t b;
    uint32_t bias;
    place_t residual;
    place_t output;
    int32_t b_packed;
    int32_t batch[2];
    int32_t rows;               // m
    int32_t columns;            // n
    int32_t depth;              // k
    int32_t a_stride[4];        // batch 0, batch 1, m, k; either m's or k's is 1
    int32_t b_stride[4];        // batch 0, batch 1, k, n; either k's or n's is 1
    int32_t out_stride[3];      // batch 0, batch 1, m; n's is 1
    int32_t residual_stride[3];
    int32_t vectors;
    float alpha;
    int32_t activation;
    float act_a;
    float act_b;
};

// output[i][j][m][n] = sum_k softmax_k(scale * sum_d query[i][j][m][d] key[i][j][d][k] + mask[i][j][m][k]) value[i][j][k][n]
// Rows of the output are stored rounded up to 16. A row of scores that are all -inf gives NaN, or 0 where masked_to_zero.
struct attention_command {
    int32_t opcode;
    int32_t slices;
    place_t query;
    place_t key;
    place_t value;
    place_t mask;               // arena or weights, or ABSENT
    place_t output;
    int32_t batch[2];
    int32_t rows;               // m, of the query
    int32_t keys;               // k
    int32_t width;              // d, of a query and a key
    int32_t value_width;        // n
    int32_t query_stride[3];    // batch 0, batch 1, m; d's is 1
    int32_t key_stride[4];      // batch 0, batch 1, d, k; either d's or k's is 1
    int32_t value_stride[4];    // batch 0, batch 1, k, n; either k's or n's is 1
    int32_t mask_stride[4];     // batch 0, batch 1, m, k; k's is 1 or 0
    int32_t out_stride[3];      // batch 0, batch 1, m; n's is 1
    float scale;
    int32_t mask_in_weights;    // 1: the mask lies in the weights region
    int32_t masked_to_zero;
};

enum pool_kind : int32_t { POOL_MAX = 0, POOL_AVERAGE = 1 };

// Window reduction over an image, vector lanes along channels. adaptive = 1: window i of an axis spans
// [floor(i in / out), ceil((i + 1) in / out)), and kernel, stride, padding, dilation are ignored.
struct pool_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
    place_t input;
    place_t output;
    int32_t batch;
    int32_t channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel[2];
    int32_t stride[2];
    int32_t padding[2];
    int32_t dilation[2];
    int32_t adaptive;
    int32_t count_include_pad;
    int32_t divisor;            // 0: the window's size as PyTorch counts it
    int32_t in_stride[3];       // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t activation;
    float act_a;
    float act_b;
};

// Element-wise micro-program over four nested dimensions, the last one contiguous or broadcast.
// Streams 0 .. inputs - 1 are read, the next `outputs` are written; bit s of broadcast: stream s has stride 0 along
// dims[3] (else 1); bit s of in_weights: stream s lies in the weights region.
// An instruction is two words: op | destination << 8 | a << 16 | b << 24, and c. Operand codes: 0 .. 7 registers,
// 16 + s stream s, 32 + i constant i.
struct pointwise_command {
    int32_t opcode;
    int32_t slices;
    uint32_t program;           // commands region
    int32_t instructions;
    uint32_t constants;         // commands region
    int32_t constant_count;
    int32_t inputs;
    int32_t outputs;
    int32_t dims[4];
    int32_t broadcast;
    int32_t in_weights;
    place_t stream[10];
    int32_t stride0[10];        // of dims[0], stream by stream
    int32_t stride1[10];
    int32_t stride2[10];
};

// Micro-operations. Comparisons and logic give 0 or 1; a value is true when it is not 0.
enum micro_op : int32_t {
    MICRO_COPY = 0,
    MICRO_ADD = 1,
    MICRO_SUB = 2,
    MICRO_MUL = 3,
    MICRO_DIV = 4,
    MICRO_FMA = 5,         // a b + c
    MICRO_MIN = 6,         // NaN if either is NaN
    MICRO_MAX = 7,         // NaN if either is NaN
    MICRO_NEG = 8,
    MICRO_ABS = 9,
    MICRO_SQRT = 10,
    MICRO_RSQRT = 11,
    MICRO_RECIPROCAL = 12,
    MICRO_EXP = 13,
    MICRO_LOG = 14,
    MICRO_TANH = 15,
    MICRO_ERF = 16,
    MICRO_SIGMOID = 17,
    MICRO_POW = 18,
    MICRO_FLOOR = 19,
    MICRO_CEIL = 20,
    MICRO_ROUND = 21,      // half to even
    MICRO_TRUNC = 22,
    MICRO_EQ = 23,
    MICRO_NE = 24,
    MICRO_LT = 25,
    MICRO_LE = 26,
    MICRO_GT = 27,
    MICRO_GE = 28,
    MICRO_AND = 29,
    MICRO_OR = 30,
    MICRO_NOT = 31,
    MICRO_WHERE = 32,      // a ? b : c
    MICRO_SIN = 33,
    MICRO_COS = 34,
    MICRO_INT_TO_FLOAT = 35,  // a holds the bits of an int32
    MICRO_FLOAT_TO_INT = 36,  // toward zero
    MICRO_SIGN = 37,
    MICRO_EXPM1 = 38,
    MICRO_LOG1P = 39,
    MICRO_RELU = 40,       // NaN stays NaN
    MICRO_ROUND_BF16 = 41, // to the nearest bfloat16
    MICRO_ROUND_F16 = 42,  // to the nearest binary16; 65520 and more give infinity
    // Operands hold the bits of an int32, and so does the result, which wraps around; comparisons give 0.0 or 1.0.
    MICRO_INT_ADD = 43,
    MICRO_INT_SUB = 44,
    MICRO_INT_MUL = 45,
    MICRO_INT_MIN = 46,
    MICRO_INT_MAX = 47,
    MICRO_INT_EQ = 48,
    MICRO_INT_LT = 49,
    MICRO_BITS_AND = 50,
    MICRO_BITS_OR = 51,
    MICRO_BITS_XOR = 52,
    MICRO_SHIFT_LEFT = 53,     // by 0 to 31
    MICRO_SHIFT_RIGHT = 54,    // the same, the sign comes in from above
    MICRO_INT_FLOOR_DIV = 55,  // rounded down; the divisor is 1 or more
};

enum reduce_kind : int32_t {
    REDUCE_SUM = 0,
    REDUCE_MEAN = 1,
    REDUCE_MAX = 2,
    REDUCE_MIN = 3,
    REDUCE_ARGMAX = 4,      // int32 bits: the row-major position among the reduced dimensions, first of equals, NaN wins
    REDUCE_ARGMIN = 5,
    REDUCE_SOFTMAX = 6,     // same size as the input
    REDUCE_LOG_SOFTMAX = 7,
    REDUCE_NORM = 8,        // (x - mean) / sqrt(variance + eps) * scale + shift: layer, group, instance norm
    REDUCE_RMS_NORM = 9,    // x / sqrt(mean(x^2) + eps) * scale
    REDUCE_PROD = 10,
    REDUCE_MOMENTS = 11,    // the mean, and to `second` the mean squared distance from it (the biased variance)
};

// Reduction over up to three dimensions, `kept` outside, `reduced` inside; sizes of unused ones are 1.
// Strides: kept 0..2, then reduced 0..2. The last kept or the last reduced dimension of size > 1 has stride 1 in input
// and output (a lone element per row is also fine). scale, shift: weights region or ABSENT, indexed by affine_stride.
struct reduce_command {
    int32_t opcode;
    int32_t slices;
    int32_t kind;
    place_t input;
    place_t output;
    uint32_t scale;
    uint32_t shift;
    place_t second;             // arena, laid out as the output; ABSENT for all kinds but REDUCE_MOMENTS
    int32_t kept[3];
    int32_t reduced[3];
    int32_t in_stride[6];
    int32_t out_stride[6];      // of the reduced dimensions only for kinds that keep the size
    int32_t affine_stride[6];
    float eps;
    int32_t activation;
    float act_a;
    float act_b;
};

// Strided copy; or, with input ABSENT, the value `fill` everywhere. Copies 32-bit patterns.
struct move_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    place_t output;
    int32_t from_weights;       // 1: the input lies in the weights region
    float fill;
    int32_t dims[6];
    int32_t in_stride[6];       // may be negative or 0
    int32_t out_stride[6];
};

// output[d] = table[d . table_stride + index[d . index_stride] * row_stride], index: int32 bits in [0, limit).
// An index outside gives STATUS_INDEX_RANGE.
struct gather_command {
    int32_t opcode;
    int32_t slices;
    place_t table;
    place_t index;              // arena
    place_t output;
    int32_t table_in_weights;
    int32_t limit;
    int32_t row_stride;
    int32_t dims[4];
    int32_t table_stride[4];
    int32_t index_stride[4];
    int32_t out_stride[4];
};

enum resample_mode : int32_t { RESAMPLE_NEAREST = 0, RESAMPLE_BILINEAR = 1 };

// Image resize, vector lanes along channels. scale is in/out as PyTorch computes it for the mode:
// nearest: source = min(floor(i * scale), in - 1); bilinear: source = align_corners ? i * scale
// : max((i + 0.5) * scale - 0.5, 0).
struct resample_command {
    int32_t opcode;
    int32_t slices;
    int32_t mode;
    place_t input;
    place_t output;
    int32_t batch;
    int32_t channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t align_corners;
    float scale[2];             // height, width
    int32_t in_stride[3];       // image, row, column; the channel's is 1
    int32_t out_stride[3];
};

// What the elements of a dense tensor are that lie closer than one a word, in the order of their addresses.
enum element_format : int32_t {
    FORMAT_BF16 = 0,  // as words: floats that are rounded when they are narrowed
    FORMAT_F16 = 1,
    FORMAT_U8 = 2,    // as words: the bits of an int32, of which narrowing keeps the low ones
    FORMAT_I8 = 3,
};

// Conversion of a dense tensor of `count` elements from narrow elements to words, or (narrow = 1) from words to narrow
// elements. input and output are multiples of 16 floats, and both tensors end with a whole vector.
struct convert_command {
    int32_t opcode;
    int32_t slices;
    place_t input;              // arena
    place_t output;             // arena
    int32_t count;
    int32_t format;
    int32_t narrow;
};

// The commands that follow are `count` streams of `length` commands each, one stream after the other. A stream neither
// reads nor writes what another one writes, so that streams may run side by side, each in its own order and without a
// barrier. Run as a plain list they give the same.
struct streams_command {
    int32_t opcode;
    int32_t slices;             // count
    int32_t count;              // 1 .. MOST_STREAMS
    int32_t length[32];         // 0 from `count` on
};

}  // namespace fpga
