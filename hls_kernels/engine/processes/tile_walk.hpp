// The bursts of a pass through the planes of the output, in the order in which residual and sums are read and results are
// stored: of each tile a segment of its first block, the same segment of its second, and so on. The array makes both blocks
// at once; the streams hold a segment of each.
#pragma once
#include "../streams.hpp"

namespace engine {

struct burst_t {
    uint32_t at;  // line, from the first of the output (or residual)
    int32_t lines;
    int32_t asked;  // lines to ask the port for: more than `lines` where planes follow each other, then 0
    int32_t pixel;  // first pixel in the plane, and how many pixels
    int32_t pixels;
    int32_t block;  // of the tile
    int32_t skip;   // words of the first line, and of the last one (0: all), as in lines_t
    int32_t rest;
    uint32_t plane;  // of the output that it is in
};

class tile_walk {
public:
    // `sums`: lines are those of partial sums, a pixel each. `both`: sums come with lines of elements.
    tile_walk(const job_t& job, const pass_t& at, bool sums, bool both)
        : job_(job),
          band_(band_of(job, at.band)),
          lines_(lines_of(job, band_, sums)),
          sums_(sums),
          plane_(sums ? job.c.out_height * job.c.out_width : job.p.out_plane),
          tiles_(tiles_of_set(job, at.set)),
          first_(at.set * job.c.set_tiles) {
#pragma HLS inline
        const bool alone = job.c.tile_blocks == 1 && !both;
        segment_ = alone ? lines_.count : both ? SEGMENT / BEAT : SEGMENT;
        together_ = lines_.count == plane_ && !both && segment_ >= lines_.count;
    }
    // Of the pass.
    int32_t bursts() const {
#pragma HLS inline
        return blocks_of_pass() * divide_up(lines_.count, segment_);
    }
    burst_t next() {
#pragma HLS inline
        const int32_t tile = first_ + tile_;
        burst_t b;
        b.lines = smaller(segment_, lines_.count - line_);
        b.plane = tile * job_.c.tile_blocks + block_;
        b.at = b.plane * plane_ + lines_.first + line_;
        b.asked = !together_ ? b.lines : tile_ == 0 && block_ == 0 ? lines_.count * blocks_of_pass() : 0;
        b.block = block_;
        b.skip = line_ == 0 ? lines_.skip : 0;
        b.rest = line_ + b.lines == lines_.count ? lines_.rest : 0;
        const int32_t pixels_of_line = sums_ ? 1 : BEAT;
        const int32_t begin = band_.y0 * job_.c.out_width, end = begin + band_.rows * job_.c.out_width;
        b.pixel = larger(begin, (lines_.first + line_) * pixels_of_line);
        b.pixels = smaller(end, (lines_.first + line_ + b.lines) * pixels_of_line) - b.pixel;
        if (++block_ < blocks_of_tile(job_, tile)) return b;
        block_ = 0;
        line_ += segment_;
        if (line_ < lines_.count) return b;
        line_ = 0;
        tile_++;
        return b;
    }

private:
    int32_t blocks_of_pass() const {
#pragma HLS inline
        const int32_t last = first_ + tiles_ - 1;
        return (tiles_ - 1) * job_.c.tile_blocks + blocks_of_tile(job_, last);
    }

    const job_t& job_;
    band_t band_;
    lines_t lines_;
    bool sums_;
    int32_t plane_, tiles_, first_, segment_;
    bool together_;
    int32_t tile_ = 0, block_ = 0, line_ = 0;
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
