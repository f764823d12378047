// Rows of floats in a region, beat by beat as a port carries them.
//
// A port transfers a beat of 16 floats a cycle. A store that changes a part of a beat loads it first, and that load waits
// for the stores before it: 70 cycles and more in every iteration. So a card uses these classes:
//   `row_reader`   reads each beat of a row once, and shifts rows that do not begin with a beat.
//   `row_writer`   puts the beats of rows together in registers, and loads a beat only where a row begins or ends within it.
//   `beat_writer`  does the same for rows or elements that lie apart.
// A writer's beat is in the region when it is full, and the last one after `flush`. Loops that use one state that
// iterations do not depend on each other through the region. That holds where they write in ascending order (single
// elements: ascending or descending), so that no beat comes again once it was left, and read nothing that they write.
//
// Under g++ they are loads and stores of the floats in place, because a processor supports any address.
#pragma once
#include "vector.hpp"

namespace fpga {

#ifdef __SYNTHESIS__

// Both values are there before one is chosen, so that what loads them depends on no condition.
FPGA_INLINE float chosen(bool first, float a, float b) { return first ? a : b; }

// Lane i of the result is lane (i + STEP) % 16 of x if `turns`, else lane i.
// \tparam STEP Number of lanes to rotate by, a power of two.
template <int STEP>
inline vec16 turned_if(const vec16& x, bool turns) {
    vec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = chosen(turns, x[(i + STEP) % VEC], x[i]);
    }
    return r;
}

// Lane i of the result is lane (i + by) % 16 of x: four rows of multiplexers.
inline vec16 turned(const vec16& x, int32_t by) {
    return turned_if<8>(turned_if<4>(turned_if<2>(turned_if<1>(x, by & 1), by & 2), by & 4), by & 8);
}

// a or b, both of which are there.
inline vec16 either(bool first, const vec16& a, const vec16& b) {
    vec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = chosen(first, a[i], b[i]);
    }
    return r;
}

// The first `lanes` lanes of a, behind them those of b.
inline vec16 joined(const vec16& a, const vec16& b, int32_t lanes) {
    vec16 r;
each_lane:
    for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
        r[i] = chosen(i < lanes, a[i], b[i]);
    }
    return r;
}

#endif

// Where a command's operand lies: in the arena, or in the weights.
struct operand_region {
    const vec16* arena;
    const vec16* weights;
    bool in_weights;

    FPGA_INLINE vec16 beat(int64_t index) const {
        vec16 x;
        if (in_weights)
            x = weights[index];
        else
            x = arena[index];
        return x;
    }
#ifdef __SYNTHESIS__
    FPGA_INLINE float at(int64_t place) const { return beat(place / VEC)[place % VEC]; }
#else
    FPGA_INLINE const vec16* region() const { return in_weights ? weights : arena; }
    FPGA_INLINE float at(int64_t place) const { return scalar_at(region(), place); }
#endif
};

// Any pointer to beats that has no choice.
struct one_region {
    const vec16* memory;
    FPGA_INLINE vec16 beat(int64_t index) const { return memory[index]; }
#ifndef __SYNTHESIS__
    FPGA_INLINE const vec16* region() const { return memory; }
#endif
};

// The first `lanes` (1 to 16) floats from `at` on, and anything behind them, of one or two beats.
// \tparam REGION Region of floats, one_region or operand_region.
template <class REGION>
FPGA_INLINE vec16 load_between(const REGION& region, int64_t at, int32_t lanes) {
#ifdef __SYNTHESIS__
    const int64_t beat = at / VEC;
    const int32_t skew = static_cast<int32_t>(at % VEC);
    const vec16 low = region.beat(beat);
    vec16 high = low;
    if (skew + lanes > VEC) high = region.beat(beat + 1);
    return turned(joined(high, low, skew), skew);
#else
    return load_some(region.region(), at, lanes);
#endif
}

// A contiguous row from front to back; REGION is one_region or operand_region.
// \tparam REGION Region of floats, one_region or operand_region.
template <class REGION>
class row_reader {
public:
#ifdef __SYNTHESIS__
    FPGA_INLINE row_reader(const REGION& region, int64_t at)
        : region_(region), beat_((at + VEC - 1) / VEC), skew_(static_cast<int32_t>((at + VEC - 1) % VEC) + 1) {
        if (skew_ < VEC) held_ = region_.beat(beat_ - 1);
    }
    // The next 16 floats, all of them in the row.
    FPGA_INLINE vec16 next() { return shifted(region_.beat(beat_++)); }
    // The same, where the region is known to be `memory`.
    FPGA_INLINE vec16 next(const vec16* memory) { return shifted(memory[beat_++]); }
    // The next `lanes` floats, and anything behind them; up to 0: nothing of the row is left.
    FPGA_INLINE vec16 next(int32_t lanes) {
        vec16 fresh = held_;
        if (lanes > VEC - skew_) fresh = region_.beat(beat_++);
        return shifted(fresh);
    }

private:
    FPGA_INLINE vec16 shifted(const vec16& fresh) {
        const vec16 both = joined(fresh, held_, skew_);
        held_ = fresh;
        return turned(both, skew_);
    }
    REGION region_;
    int64_t beat_;
    int32_t skew_;  // lanes of the held beat that are behind the reader, 1 to 16
    vec16 held_;
#else
    FPGA_INLINE row_reader(const REGION& region, int64_t at) : region_(region.region()), at_(at) {}
    FPGA_INLINE vec16 next() {
        const vec16 x = load(region_, at_);
        at_ += VEC;
        return x;
    }
    FPGA_INLINE vec16 next(int32_t lanes) {
        const vec16 x = lanes > 0 ? load_some(region_, at_, lanes) : vec16(0.0f);
        at_ += VEC;
        return x;
    }

private:
    const vec16* region_;
    int64_t at_;
#endif
};

// Contiguous rows, one behind the other or apart.
class row_writer {
public:
#ifdef __SYNTHESIS__
    FPGA_INLINE row_writer() : beat_(-1), place_(0) {}
    // A row from float `at` on.
    FPGA_INLINE void begin(vec16* to, int64_t at) {
        const int64_t beat = at / VEC;
        const int32_t place = static_cast<int32_t>(at % VEC);
        if (beat == beat_ && place == place_) return;
        flush(to);
        beat_ = beat;
        place_ = place;
        if (place_ > 0) held_ = to[beat_];
    }
    FPGA_INLINE void append(vec16* to, const vec16& x) {
        const vec16 y = turned(x, VEC - place_);
        to[beat_++] = joined(held_, y, place_);
        held_ = y;
    }
    // `lanes` floats, up to 16; nothing if that is below 1.
    FPGA_INLINE void append(vec16* to, const vec16& x, int32_t lanes) {
        if (lanes < 1) return;
        const vec16 y = turned(x, VEC - place_), whole = joined(held_, y, place_);
        const int32_t end = place_ + minimum(lanes, VEC);
        if (end >= VEC) to[beat_++] = whole;
        held_ = either(end >= VEC, y, whole);
        place_ = end % VEC;
    }
    FPGA_INLINE void flush(vec16* to) {
        if (place_ > 0) to[beat_] = joined(held_, to[beat_], place_);
        beat_ = -1;
        place_ = 0;
    }

private:
    int64_t beat_;
    int32_t place_;  // lanes of the held beat that are there
    vec16 held_;
#else
    FPGA_INLINE void begin(vec16*, int64_t at) { at_ = at; }
    FPGA_INLINE void append(vec16* to, const vec16& x) {
        store(to, at_, x);
        at_ += VEC;
    }
    FPGA_INLINE void append(vec16* to, const vec16& x, int32_t lanes) {
        if (lanes > 0) store_some(to, at_, x, lanes);
        at_ += minimum(lanes, VEC);
    }
    FPGA_INLINE void flush(vec16*) {}

private:
    int64_t at_ = 0;
#endif
};

// Elements and short rows that lie apart.
class beat_writer {
public:
#ifdef __SYNTHESIS__
    FPGA_INLINE beat_writer() : beat_(-1) {}
    FPGA_INLINE void put(vec16* to, int64_t at, float x) { put_bits(to, at, lane_bits(x), -1); }
    // Of the word at `at` the bits that are set in `mask`.
    FPGA_INLINE void put_bits(vec16* to, int64_t at, int32_t bits, int32_t mask) {
        const int64_t beat = at / VEC;
        const int32_t lane = static_cast<int32_t>(at % VEC);
        if (beat != beat_) {
            const vec16 fresh = to[beat];
            if (beat_ >= 0) to[beat_] = held_;
            held_ = fresh;
            beat_ = beat;
        }
    each_lane:
        for (int i = 0; i < VEC; i++) {
#pragma HLS unroll
            if (i == lane) held_[i] = lane_value((lane_bits(held_[i]) & ~mask) | (bits & mask));
        }
    }
    // The first `lanes` floats of x. Both beats are loaded ahead of the stores, which may not pass each other.
    FPGA_INLINE void put(vec16* to, int64_t at, const vec16& x, int32_t lanes) {
        if (lanes < 1) return;
        const int64_t beat = at / VEC;
        const int32_t first = static_cast<int32_t>(at % VEC), end = first + minimum(lanes, VEC);
        const vec16 y = turned(x, VEC - first);
        vec16 low = held_, high = held_;
        if (beat != beat_) low = to[beat];
        if (end > VEC) high = to[beat + 1];
        if (beat != beat_ && beat_ >= 0) to[beat_] = held_;
        low = joined(joined(low, y, first), low, end);
        if (end > VEC) to[beat] = low;
        held_ = either(end > VEC, joined(y, high, end - VEC), low);
        beat_ = end > VEC ? beat + 1 : beat;
    }
    // The first `lanes` floats, up to 32, of x and y.
    FPGA_INLINE void put(vec16* to, int64_t at, const vec16& x, const vec16& y, int32_t lanes) {
        const int64_t beat = at / VEC;
        const int32_t first = static_cast<int32_t>(at % VEC), end = first + lanes;
        const vec16 low = turned(x, VEC - first), high = turned(y, VEC - first);
        vec16 one = held_, two = held_, three = held_;
        if (beat != beat_) one = to[beat];
        if (end > VEC) two = to[beat + 1];
        if (end > 2 * VEC) three = to[beat + 2];
        if (beat != beat_ && beat_ >= 0) to[beat_] = held_;
        one = joined(joined(one, low, first), one, end);
        two = joined(joined(low, high, first), two, end - VEC);
        three = joined(high, three, end - 2 * VEC);
        if (end > VEC) to[beat] = one;
        if (end > 2 * VEC) to[beat + 1] = two;
        held_ = either(end > 2 * VEC, three, either(end > VEC, two, one));
        beat_ = beat + (end - 1) / VEC;
    }
    FPGA_INLINE void flush(vec16* to) {
        if (beat_ >= 0) to[beat_] = held_;
        beat_ = -1;
    }

private:
    int64_t beat_;
    vec16 held_;
#else
    FPGA_INLINE void put(vec16* to, int64_t at, float x) { store_scalar(to, at, x); }
    FPGA_INLINE void put(vec16* to, int64_t at, const vec16& x, int32_t lanes) {
        if (lanes > 0) store_some(to, at, x, lanes);
    }
    FPGA_INLINE void flush(vec16*) {}
#endif
};

}  // namespace fpga
