// The way of a pass's results through the epilogue: of each tile each group of P positions, of that each block of 16
// channels, of that WORDS positions an iteration; a single one where sums of 32 bits pass. Counters only: what a word's column
// and row are is carried from one iteration to the next, and a block returns to where its group began.
//
// Where WORDS > 1, residual and output need an iteration of their own at the begin and the end of each block of a tile, as its
// first and last lines may be shared with the bands before and behind.
#pragma once
#include "../streams.hpp"

namespace engine {

struct place_t {
    bool before;        // an iteration for the first line of a block of a tile, ...
    bool behind;        // ... or for its last one; else it has words
    int lane;           // of the group: the first word's
    int block;          // of the tile
    int params;         // block of the set
    bool ends;          // the last iteration of this block of the tile
    bool group_begins;  // the first of a group
    bool valid[WORDS];  // which words are pixels of the output
};

typedef number<bits_for(SET_BLOCKS + 1) + STEP_BITS + 6> pass_places_t;

class out_walk {
public:
    out_walk(const job_t& job, const pass_t& at)
        : width_(job.c.out_width),
          pitch_(job.p.pitch),
          step_(pixel_by_pixel(job.c) ? 1 : WORDS),
          begins_(WORDS > 1 && has_residual(job.c)),
          ends_(WORDS > 1 && !stores_32_bits(job.c)),
          last_set_(at.set + 1 == job.p.sets),
          tile_blocks_(tile_blocks_of(job)),
          one_of_tile_(tile_blocks_of(job) == 1),
          one_of_last_(blocks_of_last_tile(job) == 1),
          tiles_(tiles_of_set(job, at.set)) {
#pragma HLS inline
        const band_t band = band_of(job, at.band);
        rows_ = band.rows;
        groups_ = band.groups;
        int32_t x = 0, y = 0;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            origin_.x[e] = x;
            origin_.y[e] = y;
            if (++x == pitch_) {
                x = 0;
                y++;
            }
            if (e + 1 == step_) {
                step_x_ = x;
                step_y_ = y;
            }
        }
        wrap_ = pitch_ - step_x_;
        wrap_twice_ = 2 * wrap_;
        wrap_soon_ = wrap_ - step_x_;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            origin_.wraps[e] = origin_.x[e] >= wrap_;
            group_.x[e] = here_.x[e] = origin_.x[e];
            group_.y[e] = here_.y[e] = origin_.y[e];
            group_.wraps[e] = here_.wraps[e] = origin_.wraps[e];
        }
        before_ = begins_;
        behind_ = false;
        one_step_ = step_ == P;
        before_last_ = P - 2 * step_;
        last_lanes_ = one_step_;
        one_tile_left_ = tiles_ == 2;
        begin_tile(tiles_ == 1);
    }

    // How many places there are.
    pass_places_t iterations(const set_blocks_t& blocks) const {
#pragma HLS inline
        const number<STEP_BITS + 5> of_block = number<STEP_BITS>(groups_) * (one_step_    ? 1
                                                                             : step_ == 1 ? P
                                                                                          : P / WORDS) +
                                               begins_ + ends_;
        return blocks * of_block;
    }
    place_t here() const {
#pragma HLS inline
        place_t p;
        p.before = WORDS > 1 && before_;
        p.behind = WORDS > 1 && behind_;
        const bool words = !p.before && !p.behind;
        p.lane = static_cast<int>(lane_);
        p.block = BLOCKS > 1 && second_ ? 1 : 0;
        p.params = static_cast<int>(params_) + p.block;
        p.ends = p.behind || ((WORDS == 1 || !ends_) && last_group_ && last_lanes_);
        p.group_begins = words && p.block == 0 && lane_ == 0;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const bool in_row = here_.x[e] < width_, in_band = here_.y[e] < rows_, of_group = e < step_;
            p.valid[e] = words & of_group & in_row & in_band;
        }
        return p;
    }
    // To the next place. Each register is chosen among values that are there already.
    void advance() {
#pragma HLS inline
        const bool before = WORDS > 1 && before_, behind = WORDS > 1 && behind_, words = !(before | behind);
        const bool ends = WORDS > 1 && ends_, last_words = last_lanes_ & !(ends & last_group_);
        const bool to_end = words & (last_lanes_ & ends & last_group_);
        const bool done = behind | (!before & last_words);
        const bool next_block = done & !last_block_;
        // The same in other words, so that little lies behind the registers that decide each other a cycle later.
        const bool in_last = last_block_ & last_group_, in_other = last_block_ & !last_group_;
        const bool no_end = last_lanes_ & !ends;
        const bool next_group = (!before) & (last_lanes_ & in_other);
        const bool next_tile = (behind | ((!before) & no_end)) & in_last;
        const bool first_lines = begins_ & ((last_block_ & last_group_) | (!last_block_ & first_group_));

        // In the last group words come again, or a tile begins: what it steps to does not matter.
        const bool returns = before || (done && !next_group), to_origin = before || last_block_;
        for (int e = 0; e < WORDS; e++) {
#pragma HLS unroll
            const place_number x = here_.x[e], y = here_.y[e];
            const bool wraps = here_.wraps[e], again = x >= wrap_twice_, soon = x >= wrap_soon_;
            const place_number right = wraps ? place_number(-wrap_) : place_number(step_x_);
            const place_number down = wraps ? place_number(step_y_ + 1) : place_number(step_y_);
            const place_number next_x = x + right, next_y = y + down;
            const bool next_wraps = wraps ? again : soon;
            const place_number first_x = origin_.x[e], first_y = origin_.y[e], group_x = group_.x[e],
                               group_y = group_.y[e];
            const bool first_wraps = origin_.wraps[e], group_wraps = group_.wraps[e];
            here_.x[e] = !returns ? next_x : to_origin ? first_x : group_x;
            here_.y[e] = !returns ? next_y : to_origin ? first_y : group_y;
            here_.wraps[e] = !returns ? next_wraps : to_origin ? first_wraps : group_wraps;
            group_.x[e] = next_group ? next_x : next_tile ? first_x : group_x;
            group_.y[e] = next_group ? next_y : next_tile ? first_y : group_y;
            group_.wraps[e] = next_group ? next_wraps : next_tile ? first_wraps : group_wraps;
        }

        before_ = WORDS > 1 && (done & first_lines);
        behind_ = to_end;
        const bool two_left = lane_ == before_last_;
        if (words) {
            lane_ = last_lanes_ ? number<5>(0) : number<5>(lane_ + step_);
            last_lanes_ = last_lanes_ ? one_step_ : two_left;
        }
        if (next_block) {
            second_ = true;
            last_block_ = true;
        }
        const bool one_left = groups_left_ == number<STEP_BITS>(2);
        if (next_group) {
            second_ = false;
            last_block_ = one_block_;
            groups_left_ -= 1;
            last_group_ = one_left;
            first_group_ = false;
        }
        if (next_tile) {
            params_ += tile_blocks_;
            begin_tile(one_tile_left_);
            one_tile_left_ = tiles_ == number<TILE_BITS>(3);
            tiles_ -= 1;
        }
    }

private:
    // A column and a row are less than the window's positions, and what is compared to them less than twice that.
    typedef number<bits_for(2 * P * WINDOW_ROWS + 1)> place_number;
    struct words_at {
        place_number x[WORDS], y[WORDS];
        bool wraps
            [WORDS];  // whether the next step leads into another row: known a step ahead, so that nothing waits for it
    };
    void begin_tile(bool last) {
#pragma HLS inline
        second_ = false;
        one_block_ = last && last_set_ ? one_of_last_ : one_of_tile_;
        last_block_ = one_block_;
        groups_left_ = groups_;
        last_group_ = groups_ == 1;
        first_group_ = true;
    }

    // Of the pass.
    place_number width_, pitch_, rows_, wrap_, wrap_twice_, wrap_soon_, step_x_ = 0, step_y_ = 0;
    number<4> step_;
    number<5> before_last_;  // lane of the iteration before a group's last one
    bool begins_, ends_, last_set_, one_step_;
    number<2> tile_blocks_;
    bool one_of_tile_, one_of_last_;  // whether a tile has one block, and the last tile of the last set
    number<STEP_BITS> groups_;
    words_at origin_;
    // Where it is.
    words_at group_, here_;
    bool before_, behind_;
    number<5> lane_ = 0;
    bool last_lanes_;
    bool second_ = false, last_block_;  // block of the tile
    bool one_block_;                    // the tile has no second one
    number<STEP_BITS> groups_left_;
    bool first_group_, last_group_;
    number<TILE_BITS> tiles_;  // that are left
    bool one_tile_left_;       // behind this one
    number<bits_for(SET_BLOCKS)> params_ = 0;
};

}  // namespace engine
