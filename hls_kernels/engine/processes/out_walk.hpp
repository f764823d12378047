// The way of a pass's results through the epilogue: of each tile each group of P positions, of that each block of 16
// channels, of that WORDS positions an iteration; a single one where sums of 32 bits pass.
#pragma once
#include "../lanes.hpp"
#include "../streams.hpp"

namespace engine {

struct place_t {
    int32_t tile;       // of the set
    int32_t block;      // of the tile
    int32_t lane;       // of the group: the first word's
    bool begins;        // the first iteration of this block of the tile
    bool ends;          // and the last
    bool group_begins;  // the first of a group
    bool valid[WORDS];  // which words are pixels of the output
};

class out_walk {
public:
    out_walk(const job_t& job, const pass_t& at)
        : job_(job),
          band_(band_of(job, at.band)),
          origin_(first_group(job.p, 1, 1)),
          lanes_(origin_),
          first_(at.set * job.c.set_tiles),
          blocks_(blocks_of_set(job, at.set)),
          words_(pixel_by_pixel(job.c) ? 1 : WORDS) {
#pragma HLS inline
    }
    int32_t iterations() const {
#pragma HLS inline
        return blocks_ * band_.groups * (words_ == 1 ? P : (P + WORDS - 1) / WORDS);
    }
    // Where a block of a tile begins and ends once more: for processes that need an iteration more there.
    int32_t blocks() const { return blocks_; }

    place_t here() const {
#pragma HLS inline
        place_t p;
        p.tile = tile_;
        p.block = block_;
        p.lane = lane_;
        p.begins = group_ == 0 && lane_ == 0;
        p.ends = group_ + 1 == band_.groups && lane_ + words_ >= P;
        p.group_begins = block_ == 0 && lane_ == 0;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const int32_t l = lane_ + e;
            p.valid[e] = e < words_ && l < P && lanes_.x[l < P ? l : 0] < job_.c.out_width &&
                         lanes_.y[l < P ? l : 0] < band_.rows;
        }
        return p;
    }
    void advance() {
#pragma HLS inline
        lane_ += words_;
        if (lane_ < P) return;
        lane_ = 0;
        if (++block_ < blocks_of_tile(job_, first_ + tile_)) return;
        block_ = 0;
        lanes_ = next_group(lanes_, job_.p, 1, 1);
        if (++group_ < band_.groups) return;
        group_ = 0;
        lanes_ = origin_;
        tile_++;
    }

private:
    const job_t& job_;
    band_t band_;
    lanes_t origin_, lanes_;
    int32_t first_, blocks_, words_;
    int32_t tile_ = 0, group_ = 0, block_ = 0, lane_ = 0;
};

}  // namespace engine
