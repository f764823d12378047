// Tiles of 16 x 16 sums of the CPU's AMX unit: 16 quads a sum and step. Software only. Sums of bytes are exact, and so equal
// to those of dot_tile. Sums of bfloat16 are not exact, so that a command uses one of the two for all of its rows.
//
// A tile of weights is 16 columns of up to 16 quads, as they lie in a panel. A tile of input has as many bytes of 16 pixels at
// equal distances. Threads of the process need the operating system's permission to use the unit, which is requested once.
#pragma once
#ifndef __SYNTHESIS__
#include "tile.hpp"

#if defined(__AMX_INT8__) && defined(__AMX_BF16__) && defined(__linux__)
#define FPGA_AMX
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace fpga {

constexpr int AMX_ROWS = 16;
constexpr int AMX_QUADS = 16;  // of k in a step, at most

enum amx_product { AMX_UNSIGNED, AMX_SIGNED, AMX_BF16 };  // what is multiplied: bytes of the input, by signed ones

#ifdef FPGA_AMX

// Whether the kernel lets this process's threads use the unit.
inline bool amx_is_ready() {
    static const bool ready = [] {
        constexpr long REQUEST_PERMISSION = 0x1023, TILE_DATA = 18;
        return syscall(SYS_arch_prctl, REQUEST_PERMISSION, TILE_DATA) == 0;
    }();
    return ready;
}

// Configures this thread's tiles for steps of so many quads (0: not at all), until it goes out of scope: 0 to 3 are sums,
// 4 and 5 input, 6 and 7 weights.
class amx_scope {
public:
    explicit amx_scope(int quads) : used_(quads != 0) {
        if (!used_) return;
        layout c = {};
        c.palette = 1;
        for (int i = 0; i < 8; i++) {
            c.row_bytes[i] = static_cast<uint16_t>(i == 4 || i == 5 ? 4 * quads : 64);
            c.rows[i] = static_cast<uint8_t>(i >= 6 ? quads : AMX_ROWS);
        }
        asm volatile("ldtilecfg %0" : : "m"(c));
    }
    ~amx_scope() {
        if (used_) asm volatile("tilerelease");
    }
    amx_scope(const amx_scope&) = delete;
    amx_scope& operator=(const amx_scope&) = delete;

private:
    bool used_;
    struct alignas(64) layout {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    };
};

#define FPGA_TILE_ZERO(tile) asm volatile("tilezero %%tmm" #tile : :)
#define FPGA_TILE_LOAD(tile, from, stride) \
    asm volatile("tileloadd (%0,%1,1), %%tmm" #tile : : "r"(from), "r"(static_cast<int64_t>(stride)) : "memory")
#define FPGA_TILE_STORE(tile, to, stride) \
    asm volatile("tilestored %%tmm" #tile ", (%0,%1,1)" : : "r"(to), "r"(static_cast<int64_t>(stride)) : "memory")
#define FPGA_TILE_DOT(sum, input, weight)                                                \
    do {                                                                                 \
        if (PRODUCT == AMX_BF16)                                                         \
            asm volatile("tdpbf16ps %%tmm" #weight ", %%tmm" #input ", %%tmm" #sum : :); \
        else if (PRODUCT == AMX_SIGNED)                                                  \
            asm volatile("tdpbssd %%tmm" #weight ", %%tmm" #input ", %%tmm" #sum : :);   \
        else                                                                             \
            asm volatile("tdpbusd %%tmm" #weight ", %%tmm" #input ", %%tmm" #sum : :);   \
    } while (false)

// Steps that weights are fetched ahead where they come from far.
constexpr int AMX_STEPS_AHEAD = 4;

// Sums of 16 or 32 pixels, `pitch` bytes apart, by 16 or 32 columns of a panel, beginning `first` vectors into it:
// to[pixel][columns / 16]. fetch: the weights are used for the first time.
// \tparam PRODUCT Arithmetic of the product: its number format and multiply instruction.
// \tparam ROW_TILES Tiles of 16 rows.
// \tparam COLUMN_TILES Tiles of 16 output channels.
template <amx_product PRODUCT, int ROW_TILES, int COLUMN_TILES>
inline void amx_tile(ivec16* to, const uint8_t* source, int64_t pitch, const dot_panel& panel, int first, int quads,
                     bool fetch) {
    const int64_t step = int64_t{4} * VEC * panel.pitch;  // bytes from one quad of weights to the next
    const uint8_t* weight = panel.weight + 4 * VEC * first;
    const uint8_t* below = source + AMX_ROWS * pitch;
    FPGA_TILE_ZERO(0);
    if (COLUMN_TILES > 1) FPGA_TILE_ZERO(1);
    if (ROW_TILES > 1) FPGA_TILE_ZERO(2);
    if (ROW_TILES > 1 && COLUMN_TILES > 1) FPGA_TILE_ZERO(3);
    for (int32_t r = 0; r < panel.run_count; r++) {
        const uint32_t origin = panel.runs[r].offset;
        for (int32_t q = 0; q < panel.runs[r].quads; q += quads, weight += quads * step) {
            if (fetch) {
                const uint8_t* next = weight + AMX_STEPS_AHEAD * quads * step;
                for (int i = 0; i < quads; i++, next += step) {
                    __builtin_prefetch(next);
                    if (COLUMN_TILES > 1) __builtin_prefetch(next + 4 * VEC);
                }
            }
            FPGA_TILE_LOAD(4, source + origin + 4 * q, pitch);
            FPGA_TILE_LOAD(6, weight, step);
            FPGA_TILE_DOT(0, 4, 6);
            if (COLUMN_TILES > 1) {
                FPGA_TILE_LOAD(7, weight + 4 * VEC, step);
                FPGA_TILE_DOT(1, 4, 7);
            }
            if (ROW_TILES > 1) {
                FPGA_TILE_LOAD(5, below + origin + 4 * q, pitch);
                FPGA_TILE_DOT(2, 5, 6);
            }
            if (ROW_TILES > 1 && COLUMN_TILES > 1) FPGA_TILE_DOT(3, 5, 7);
        }
    }
    constexpr int64_t ROW = 64 * COLUMN_TILES;
    FPGA_TILE_STORE(0, to, ROW);
    if (COLUMN_TILES > 1) FPGA_TILE_STORE(1, to + 1, ROW);
    if (ROW_TILES > 1) FPGA_TILE_STORE(2, to + AMX_ROWS * COLUMN_TILES, ROW);
    if (ROW_TILES > 1 && COLUMN_TILES > 1) FPGA_TILE_STORE(3, to + AMX_ROWS * COLUMN_TILES + 1, ROW);
}

#undef FPGA_TILE_ZERO
#undef FPGA_TILE_LOAD
#undef FPGA_TILE_STORE
#undef FPGA_TILE_DOT

#else

inline bool amx_is_ready() { return false; }

#endif

// The quads of a step that divide every run: 0 if these are so few that dot_tile is faster.
inline int amx_quads_of(const k_run* runs, int32_t count) {
    for (int quads = AMX_QUADS; quads > 0; quads--) {
        bool divides = true;
        int32_t longest = 0;
        for (int32_t r = 0; r < count; r++) {
            divides = divides && runs[r].quads % quads == 0;
            longest = maximum(longest, runs[r].quads);
        }
        if (divides) return quads >= 4 || quads == longest ? quads : 0;
    }
    return 0;
}

}  // namespace fpga
#endif
