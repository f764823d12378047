// The bursts of a pass through the planes of the output, in the order in which residual and sums are read and results are
// stored. For each tile this is a segment of its first block, the same segment of its second, and so on. The array makes
// both blocks at once; the streams hold a segment of each.
#pragma once
#include "../streams.hpp"

namespace engine {

typedef number<PIXEL_BITS> count_t;

struct burst_t {
    uint32_t at;  // line, from the first of the output (or residual)
    count_t lines;
    int32_t asked;     // lines to ask the port for: more than `lines` where planes follow each other, then 0
    uint32_t sums_at;  // the first pixel's partial sum, from the first of all, and how many pixels
    count_t pixels;
    int block;  // of the tile
    int skip;   // words of the first line, and of the last one (0: all), as in lines_t
    int rest;
};

// Where a pass lies in the planes of the output: its band, in pixels, and its set and image, in lines and in partial sums.
// Followed pass by pass, so that nothing has to be multiplied.
class places_of_pass {
public:
    // `image_step`: lines from one image to the next.
    places_of_pass(const job_t& job, uint32_t image_step) : job_(job), image_step_(image_step) {}
    void follow(const pass_t& at) {
#pragma HLS inline
        if (at.band != at_.band) begin_ = at.band == 0 ? count_t(0) : count_t(begin_ + count_t(job_.p.band_pixels));
        if (at.set != at_.set) {
            set_lines_ = at.set == 0 ? 0 : set_lines_ + job_.p.set_lines;
            set_sums_ = at.set == 0 ? 0 : set_sums_ + job_.p.set_sums;
        }
        if (at.image != at_.image) {
            image_ = at.image == 0 ? 0 : image_ + image_step_;
            image_sums_ = at.image == 0 ? 0 : image_sums_ + job_.p.image_sums;
        }
        at_ = at;
    }
    count_t begin() const { return begin_; }
    count_t end() const {
#pragma HLS inline
        const count_t end = begin_ + count_t(job_.p.band_pixels), all = job_.p.out_pixels;
        return end < all ? end : all;
    }
    uint32_t set_lines() const { return set_lines_; }
    uint32_t set_sums() const { return set_sums_; }
    uint32_t image() const { return image_; }
    uint32_t image_sums() const { return image_sums_; }

private:
    const job_t& job_;
    const uint32_t image_step_;
    pass_t at_ = {0, 0, 0};
    count_t begin_ = 0;
    uint32_t set_lines_ = 0, set_sums_ = 0, image_ = 0, image_sums_ = 0;
};

class tile_walk {
public:
    // `sums`: lines are those of partial sums, a pixel each. `both`: sums come with lines of elements.
    tile_walk(const job_t& job, const pass_t& at, const places_of_pass& places, bool sums, bool both)
        : begin_(places.begin()),
          end_(places.end()),
          sums_plane_(job.p.out_pixels),
          plane_(sums ? job.p.out_pixels : job.p.out_plane),
          first_(sums ? begin_ : count_t(begin_ >> LINE_SHIFT)),
          behind_(sums ? end_ : count_t((end_ + (BEAT - 1)) >> LINE_SHIFT)),
          sums_(sums),
          tile_blocks_(tile_blocks_of(job)),
          last_blocks_(blocks_of_last_tile(job)),
          tiles_(tiles_of_set(job, at.set)),
          last_set_(at.set + 1 == job.p.sets),
          tile_at_(sums ? places.set_sums() : places.set_lines()),
          tile_sums_(places.set_sums()) {
#pragma HLS inline
        const bool alone = tile_blocks_ == number<2>(1) && !both;
        const count_t count = behind_ - first_;
        segment_ = alone ? count : both ? count_t(SEGMENT / BEAT) : count_t(SEGMENT);
        together_ = count == plane_ && !both && segment_ >= count;
        const int32_t all = sums ? job.p.image_sums : job.p.image_lines, set = sums ? job.p.set_sums : job.p.set_lines;
        whole_ = last_set_ ? static_cast<int32_t>(all - tile_at_) : set;
        line_ = first_;
    }
    // Whether there is a burst left in the pass.
    bool more() const { return tiles_ > number<TILE_BITS>(0); }
    burst_t next() {
#pragma HLS inline
        const count_t left = behind_ - line_, lines = left < segment_ ? left : segment_;
        const number<2> blocks = tiles_ == number<TILE_BITS>(1) && last_set_ ? last_blocks_ : tile_blocks_;
        const bool second = BLOCKS == 2 && block_ == number<2>(1), last_lines = lines == left;
        burst_t b;
        b.lines = lines;
        b.at = tile_at_ + static_cast<uint32_t>(line_) + (second ? static_cast<uint32_t>(plane_) : 0u);
        b.asked = !together_ ? static_cast<int32_t>(lines) : begins_ ? whole_ : 0;
        b.block = second ? 1 : 0;
        b.skip = sums_ || line_ != first_ ? 0 : static_cast<int>(begin_ & (BEAT - 1));
        b.rest = sums_ || !last_lines ? 0 : static_cast<int>(end_ & (BEAT - 1));
        // Of lines of elements.
        const count_t at = line_ << LINE_SHIFT, from = begin_ > at ? begin_ : at;
        const count_t behind = at + (lines << LINE_SHIFT), to = end_ < behind ? end_ : behind;
        b.pixels = to - from;
        b.sums_at = tile_sums_ + static_cast<uint32_t>(from) + (second ? static_cast<uint32_t>(sums_plane_) : 0u);
        begins_ = false;
        if (BLOCKS == 2 && block_ + 1 < blocks) {
            block_ = 1;
            return b;
        }
        block_ = 0;
        line_ += lines;
        if (!last_lines) return b;
        line_ = first_;
        tiles_ -= 1;
        const bool two = BLOCKS == 2 && tile_blocks_ == number<2>(2);
        tile_at_ += static_cast<uint32_t>(plane_) << two;
        tile_sums_ += static_cast<uint32_t>(sums_plane_) << two;
        return b;
    }

private:
    count_t begin_, end_, sums_plane_, plane_, first_, behind_, segment_, line_;
    bool sums_, together_, begins_ = true;
    number<2> tile_blocks_, last_blocks_, block_ = 0;
    number<TILE_BITS> tiles_;
    bool last_set_;
    uint32_t tile_at_, tile_sums_;
    int32_t whole_;
};

// A line to one of the streams of a tile's blocks, and from it.
// \tparam STREAM Stream of lines.
template <class STREAM>
void write_block(STREAM streams[BLOCKS], int32_t block, const line_t& line) {
#pragma HLS inline
    for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
        if (k == block) streams[k].write(line);
    }
}
// \tparam STREAM Stream of lines.
template <class STREAM>
line_t read_block(STREAM streams[BLOCKS], int32_t block) {
#pragma HLS inline
    line_t line;
    for (int k = 0; k < BLOCKS; k++) {
#pragma HLS unroll
        if (k == block) line = streams[k].read();
    }
    return line;
}

}  // namespace engine
