// The bursts of a pass through the planes of the output, in the order in which residual and sums are read and results are
// stored: of each tile a segment of its first block, the same segment of its second, and so on. The array makes both blocks
// at once; the streams hold a segment of each.
#pragma once
#include "../streams.hpp"

namespace engine {

struct burst_t {
    uint32_t at;  // line, from the first of the output (or residual)
    int32_t lines;
    int32_t asked;     // lines to ask the port for: more than `lines` where planes follow each other, then 0
    uint32_t sums_at;  // the first pixel's partial sum, from the first of all, and how many pixels
    int32_t pixels;
    int32_t block;  // of the tile
    int32_t skip;   // words of the first line, and of the last one (0: all), as in lines_t
    int32_t rest;
};

// Where the bands of a command begin and end, in pixels of the output: followed pass by pass.
class band_pixels {
public:
    explicit band_pixels(const job_t& job)
        : step_(size_t_(job.c.band_rows) * size_t_(job.c.out_width)),
          all_(size_t_(job.c.out_height) * size_t_(job.c.out_width)) {
#pragma HLS inline
    }
    void follow(const pass_t& at) {
#pragma HLS inline
        if (at.band == band_) return;
        begin_ = at.band == 0 ? pixels_t(0) : pixels_t(begin_ + step_);
        band_ = at.band;
    }
    int32_t begin() const { return static_cast<int32_t>(begin_); }
    int32_t end() const { return smaller(static_cast<int32_t>(begin_ + step_), all()); }
    int32_t all() const { return static_cast<int32_t>(all_); }

private:
    typedef ap_uint<SIZE_BITS> size_t_;
    typedef number<PIXEL_BITS> pixels_t;
    pixels_t step_, all_, begin_ = 0;
    int32_t band_ = 0;
};

class tile_walk {
public:
    // `sums`: lines are those of partial sums, a pixel each. `both`: sums come with lines of elements.
    tile_walk(const job_t& job, const pass_t& at, const band_pixels& band, bool sums, bool both)
        : begin_(band.begin()),
          end_(band.end()),
          sums_plane_(band.all()),
          plane_(sums ? band.all() : job.p.out_plane),
          first_(sums ? band.begin() : band.begin() / BEAT),
          behind_(sums ? band.end() : (band.end() + BEAT - 1) / BEAT),
          sums_(sums),
          tile_blocks_(job.c.tile_blocks),
          tiles_(tiles_of_set(job, at.set)),
          last_set_(at.set + 1 == job.p.sets) {
#pragma HLS inline
        const bool alone = job.c.tile_blocks == 1 && !both;
        const count_t count = behind_ - first_;
        segment_ = alone ? count : both ? count_t(SEGMENT / BEAT) : count_t(SEGMENT);
        together_ = count == plane_ && !both && segment_ >= count;
        last_blocks_ = blocks_of_tile(job, job.p.tiles - 1);
        blocks_of_pass_ = blocks_of_set(job, at.set);
        const ap_int<BLOCK_BITS + 1> before = at.set * job.c.set_tiles << (tile_blocks_ == number<2>(2));
        tile_at_ = static_cast<uint32_t>(static_cast<int64_t>(before * plane_));
        tile_sums_ = both ? static_cast<uint32_t>(static_cast<int64_t>(before * sums_plane_)) : 0;
        whole_ = static_cast<int32_t>(static_cast<int64_t>(count * ap_int<BLOCK_BITS + 1>(blocks_of_pass_)));
        begins_ = true;
        line_ = first_;
    }
    // Whether there is a burst left in the pass.
    bool more() const { return tiles_ > number<TILE_BITS>(0); }
    burst_t next() {
#pragma HLS inline
        const count_t left = behind_ - line_, lines = left < segment_ ? left : segment_;
        const number<2> blocks = tiles_ == number<TILE_BITS>(1) && last_set_ ? last_blocks_ : tile_blocks_;
        const bool second = block_ == number<2>(1), last_lines = lines == left;
        burst_t b;
        b.lines = static_cast<int32_t>(lines);
        b.at = tile_at_ + (second ? static_cast<uint32_t>(plane_) : 0u) + static_cast<uint32_t>(line_);
        b.asked = !together_ ? b.lines : begins_ ? whole_ : 0;
        b.block = second ? 1 : 0;
        b.skip = sums_ || line_ != first_ ? 0 : static_cast<int32_t>(begin_) % BEAT;
        b.rest = sums_ || !last_lines ? 0 : static_cast<int32_t>(end_) % BEAT;
        const int32_t at = static_cast<int32_t>(line_) * (sums_ ? 1 : BEAT);
        const int32_t from = larger(static_cast<int32_t>(begin_), at);
        b.pixels = smaller(static_cast<int32_t>(end_), at + b.lines * (sums_ ? 1 : BEAT)) - from;
        b.sums_at = tile_sums_ + (second ? static_cast<uint32_t>(sums_plane_) : 0u) + static_cast<uint32_t>(from);
        begins_ = false;
        if (block_ + 1 < blocks) {
            block_ = 1;
            return b;
        }
        block_ = 0;
        line_ += lines;
        if (!last_lines) return b;
        line_ = first_;
        tiles_ -= 1;
        const bool two = tile_blocks_ == number<2>(2);
        tile_at_ += static_cast<uint32_t>(plane_) << two;
        tile_sums_ += static_cast<uint32_t>(sums_plane_) << two;
        return b;
    }

private:
    typedef number<PIXEL_BITS> count_t;

    count_t begin_, end_, sums_plane_, plane_, first_, behind_, segment_, line_;
    bool sums_, together_, begins_;
    number<2> tile_blocks_, last_blocks_, block_ = 0;
    number<TILE_BITS> tiles_;
    bool last_set_;
    int32_t blocks_of_pass_, whole_;
    uint32_t tile_at_, tile_sums_;
};

// A line to one of the streams of a tile's blocks, and from it.
inline void write_block(line_stream streams[BLOCKS], int32_t block, const line_t& line) {
#pragma HLS inline
    for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
        if (k == block) streams[k].write(line);
    }
}
inline line_t read_block(line_stream streams[BLOCKS], int32_t block) {
#pragma HLS inline
    line_t line;
    for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
        if (k == block) line = streams[k].read();
    }
    return line;
}

}  // namespace engine
