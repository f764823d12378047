// Sizes of an engine: what a recipe says. Each may be given with -D, or by a header that ENGINE_CONFIG names (xclbin_build
// writes one); what is not given has the value below, a small engine for test benches.
#pragma once
#ifdef ENGINE_CONFIG
#include ENGINE_CONFIG
#endif

#ifndef ENGINE_ELEMENT
#define ENGINE_ELEMENT 0  // element_kind
#endif
#ifndef ENGINE_PIXELS
#define ENGINE_PIXELS 2
#endif
#ifndef ENGINE_OUT_CHANNELS
#define ENGINE_OUT_CHANNELS 16
#endif
#ifndef ENGINE_IN_CHANNELS
#define ENGINE_IN_CHANNELS 16
#endif
#ifndef ENGINE_LANES
#define ENGINE_LANES 16
#endif
#ifndef ENGINE_PORT_BYTES
#define ENGINE_PORT_BYTES 64
#endif
#ifndef ENGINE_URAM
#define ENGINE_URAM 1
#endif
#ifndef ENGINE_WINDOW_ROWS
#define ENGINE_WINDOW_ROWS 256
#endif
#ifndef ENGINE_WEIGHT_STEPS
#define ENGINE_WEIGHT_STEPS 64
#endif
#ifndef ENGINE_SET_TILES
#define ENGINE_SET_TILES 32
#endif
#ifndef ENGINE_ROW_SUMS
#define ENGINE_ROW_SUMS 1  // 0: a map as second operand has no zero point
#endif
#ifndef ENGINE_PARTIAL_SUMS
#define ENGINE_PARTIAL_SUMS 1  // 0: a tile's weights and a row of the input fit the memories, else a command is refused
#endif
#ifndef ENGINE_TAPS
#define ENGINE_TAPS 128
#endif
#ifndef ENGINE_CUS
#define ENGINE_CUS 1  // of the image that share a network (peers.hpp)
#endif
#ifndef ENGINE_BANKS
#define ENGINE_BANKS 1  // of memory that the maps lie in (paged_port.hpp)
#endif
#ifndef ENGINE_PAGE_BYTES
#define ENGINE_PAGE_BYTES 4096
#endif
#ifndef ENGINE_ACTIVATIONS
#define ENGINE_ACTIVATIONS 1  // of bfloat16: whether functions of a result are applied by table (function.hpp)
#endif
// The vector side: lanes (0, 2, 4, 8 or, of int8, 16), words of 16 channels in a memory between two sweeps, blocks whose gamma and beta
// it holds.
#ifndef ENGINE_VECTOR_LANES
#define ENGINE_VECTOR_LANES (ENGINE_ELEMENT == 0 ? 16 : 8)
#endif
#ifndef ENGINE_VECTOR_DEPTH
#define ENGINE_VECTOR_DEPTH 512
#endif
#ifndef ENGINE_VECTOR_BLOCKS
#define ENGINE_VECTOR_BLOCKS 32
#endif
#ifndef ENGINE_GATHER
#define ENGINE_GATHER 1  // of int8: whether words of maps are copied in any order
#endif
#ifndef ENGINE_CASTS
#define ENGINE_CASTS 1  // of int8: whether maps of float32 become int8 ones, and the other way
#endif
// 0 lanes: the engine has no vector side.
#define ENGINE_HAS_VECTOR (ENGINE_VECTOR_LANES > 0)
#define ENGINE_HAS_GATHER (ENGINE_GATHER && ENGINE_HAS_VECTOR && ENGINE_ELEMENT == 0)
#define ENGINE_HAS_CASTS (ENGINE_CASTS && ENGINE_HAS_VECTOR && ENGINE_ELEMENT == 0)
#define ENGINE_FUNCTIONS (ENGINE_ELEMENT == 1 && ENGINE_ACTIVATIONS)
// Results of bfloat16 operands may stay float32 on their way to the vector side (MAC_WIDE, VECTOR_WIDE).
#define ENGINE_WIDE (ENGINE_ELEMENT == 1 && ENGINE_HAS_VECTOR)

namespace engine {

// Bits that hold 0 to n - 1.
constexpr int bits_for(int n) { return n <= 2 ? 1 : 1 + bits_for((n + 1) / 2); }

// What maps and weights are made of.
enum element_kind { ELEMENT_INT8 = 0, ELEMENT_BFLOAT16 = 1, ELEMENT_FLOAT32 = 2 };
constexpr int ELEMENT = ENGINE_ELEMENT;
constexpr int ELEMENT_BYTES = 1 << ELEMENT;

// The array: P pixels x OC output channels x IC input channels a cycle.
constexpr int P = ENGINE_PIXELS;
constexpr int OC = ENGINE_OUT_CHANNELS;
constexpr int IC = ENGINE_IN_CHANNELS;

constexpr int CHANNELS = 16;           // of a block of a map, and lanes of a word
constexpr int BLOCKS = OC / CHANNELS;  // blocks of output channels that the array makes at once
constexpr int PARTS = CHANNELS / IC;   // steps that a word of 16 channels takes
constexpr int LINE_BYTES = 64;         // unit of all addresses
constexpr int LINE_ELEMENTS = LINE_BYTES / ELEMENT_BYTES;
constexpr bool FUNCTIONS = ENGINE_FUNCTIONS;
constexpr bool WIDE = ENGINE_WIDE;
// A function of bfloat16 has a table for so many neighbouring exponents, of 128 numbers each, with either sign.
constexpr int FUNCTION_EXPONENTS = 16;
constexpr int FUNCTION_ENTRIES = 2 * FUNCTION_EXPONENTS * 128;
// Lines of a table: 256 bytes, or a function's tails and entries.
constexpr int TABLE_LINES = FUNCTIONS ? 1 + FUNCTION_ENTRIES * 2 / LINE_BYTES : 256 / LINE_BYTES;
constexpr int BEAT = LINE_ELEMENTS / CHANNELS;  // pixels of a block in a line

// The ports of the input and of the weights move so much in a beat: a line, or less where memory's own ports are narrower.
constexpr int PORT_BYTES = ENGINE_PORT_BYTES;
constexpr int LINE_BEATS = LINE_BYTES / PORT_BYTES;
constexpr int BEAT_SHIFT = (PORT_BYTES == 64 ? 6 : 4) - ELEMENT;     // a beat has 1 << BEAT_SHIFT elements
constexpr int PORT_WORDS = PORT_BYTES / (CHANNELS * ELEMENT_BYTES);  // pixels of a block in a beat

// Words that pass the epilogue in a cycle; a word is one pixel's 16 channels.
constexpr int WORDS = ENGINE_LANES / CHANNELS;

// The window: two memories of P banks x WINDOW_ROWS words. The weights: two memories of WEIGHT_STEPS steps.
constexpr int WINDOW_ROWS = ENGINE_WINDOW_ROWS;
constexpr int WEIGHT_STEPS = ENGINE_WEIGHT_STEPS;
constexpr int SET_TILES = ENGINE_SET_TILES;  // tiles whose weights can lie there together
constexpr int TAPS = ENGINE_TAPS;            // positions of a kernel

// Whether the array sums activations as well, for a second operand that has a zero point.
constexpr bool ROW_SUMS = ELEMENT == ELEMENT_INT8 && ENGINE_ROW_SUMS != 0;

constexpr bool PARTIAL_SUMS = ENGINE_PARTIAL_SUMS;

// Floating-point sums return to an adder after this many cycles, so the array works on as many groups of pixels in turn.
constexpr int INTERLEAVE = ELEMENT == ELEMENT_INT8 ? 1 : 8;
static_assert(ELEMENT == ELEMENT_INT8 || INTERLEAVE == 8, "the distance that pragmas of dependence state");

constexpr int FILL_BANKS = P >= 4 ? 4 : P >= 2 ? 2 : 1;
// Words that fill_window writes in a cycle, to as many banks.
constexpr int FILL = PORT_WORDS < FILL_BANKS ? PORT_WORDS : FILL_BANKS;
constexpr int SEGMENT = 64;        // lines of a burst where a tile's two blocks take turns
constexpr int AHEAD = 8;           // read requests on their way
constexpr int WINDOWS_AHEAD = 6;   // windows that load_input is ahead of store, at most
constexpr int COMMANDS_AHEAD = 3;  // commands that other loaders are ahead of store, at most

static_assert(P >= 1 && P <= 16, "pixels of the array: 1 to 16");
static_assert(OC == 16 || OC == 32, "output channels of the array: 16 or 32");
static_assert(IC == 16 || IC == 8 || IC == 4 || IC == 2, "input channels of the array: 2, 4, 8 or 16");
static_assert(ELEMENT != ELEMENT_INT8 || IC == 16, "an int8 array takes whole words: 16 input channels");
static_assert(IC * ELEMENT_BYTES >= 4, "a line of weights has 16 output channels of 4 bytes each");
static_assert(WORDS >= 1 && WORDS <= BEAT, "lanes of the epilogue: 16 a word, at most a line");
static_assert((PORT_BYTES == 64 || PORT_BYTES == 16) && PORT_WORDS >= 1, "ports of 64 or 16 bytes, a word at least");
static_assert(BEAT % WORDS == 0, "words of a line come in equal parts");
static_assert(P % WORDS == 0, "words of a group come in equal parts");
static_assert(WINDOWS_AHEAD < 128 && COMMANDS_AHEAD < 128, "counted with 8 bits");
static_assert((WINDOW_ROWS & (WINDOW_ROWS - 1)) == 0, "rows of the window: a power of two, so that addresses wrap");

}  // namespace engine
