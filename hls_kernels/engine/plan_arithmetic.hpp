// Products and divisions of a plan (plan.hpp), one at a time.
#pragma once
#include "widths.hpp"

namespace engine {

// Products and divisions of a plan, in the order of rounds: what one needs is there after the rounds before it.
enum plan_product {
    HEADS,
    TAPS_OF_KERNEL,
    KERNEL_ROWS,
    STEP_ROWS,
    BAND_ROWS,
    PHASE_PLANES,
    ROW_ELEMENTS,  // round 0
    WINDOWS,
    STEPS,
    GROUP_SKIP,
    BAND_ELEMENTS,
    TOP_ELEMENTS,
    WINDOW_ELEMENTS,
    MAP_ELEMENTS,
    OUT_PIXELS,
    BAND_PIXELS,
    WEIGHT_SET,  // 1
    FULL_ROWS,
    LAST_ROWS,
    PASSES,
    PLANE,
    SET_LINES,
    SET_SUMS,
    IMAGE_LINES,
    IMAGE_SUMS,
    SET_WEIGHTS,
    LAST_WEIGHTS,
    IN_LINES,
    GROUP_STEP_X,
    GROUP_STEP_Y,
    ROW_STEP,  // 2
    PLANES,
    ROW_PLANE,  // 4
    PRODUCTS
};
enum plan_division {
    BANDS,
    SETS,
    GROUP,
    FOLD_STEP,
    FOLD_END,
    WIDTH,
    LEFT,
    DOWN,
    RIGHT,  // 0
    PHASE_ROWS,
    GROUP_ROWS,  // 1
    GROUPS,
    GROUPS_LAST,  // 2
    PLANE_BANK,   // 3
    BLOCK,        // 5
    DIVISIONS
};
constexpr int PLAN_ROUNDS = 6;

// Works them out one after the other: in hardware there is one multiplier and one divider, which makes a bit of a quotient
// every other cycle. Numbers are not negative, and dividends and divisors have SIZE_BITS.
class arithmetic {
public:
    arithmetic() : products_(0), products_done_(0), divisions_(0), divisions_done_(0) {}
    void multiply(plan_product n, int32_t a, int32_t b) {
#pragma HLS inline
        factor_[n] = a;
        other_[n] = b;
        products_ = n + 1;
    }
    void divide(plan_division n, int32_t a, int32_t b) {
#pragma HLS inline
        dividend_[n] = a;
        divisor_[n] = b;
        divisions_ = n + 1;
    }
    void run() {
#pragma HLS inline
    plan_products:
        for (; products_done_ < products_; products_done_++) {
#pragma HLS pipeline II = 4
#pragma HLS loop_tripcount min = 0 max = PRODUCTS
            const ap_uint<PIXEL_BITS> a = factor_[products_done_];
            const ap_uint<SIZE_BITS> b = other_[products_done_];
            product_[products_done_] = static_cast<int32_t>(a * b);
        }
    plan_divisions:
        for (; divisions_done_ < divisions_; divisions_done_++) {
#pragma HLS loop_tripcount min = 0 max = DIVISIONS
            const int32_t a = dividend_[divisions_done_], b = divisor_[divisions_done_];
            ap_uint<SIZE_BITS> quotient = a;
            const ap_uint<SIZE_BITS> divisor = b;
            number<SIZE_BITS + 1> rest = 0;
        plan_bits:
            for (ap_uint<6> bit = 0; bit < SIZE_BITS; bit++) {
#pragma HLS pipeline II = 2
                const number<SIZE_BITS + 1> more = rest * 2 + (quotient >> (SIZE_BITS - 1)), less = more - divisor;
                const bool fits = less >= 0;
                quotient = (quotient << 1) + ap_uint<1>(fits);
                rest = fits ? less : more;
            }
            quotient_[divisions_done_] = quotient;
            rest_[divisions_done_] = rest;
        }
    }
    int32_t product(plan_product n) const { return product_[n]; }
    int32_t quotient(plan_division n) const { return quotient_[n]; }
    int32_t quotient_up(plan_division n) const { return quotient_[n] + (rest_[n] > 0); }
    int32_t rest(plan_division n) const { return rest_[n]; }

private:
    number<bits_for(PRODUCTS + 1)> products_, products_done_;
    number<bits_for(DIVISIONS + 1)> divisions_, divisions_done_;
    int32_t factor_[PRODUCTS], other_[PRODUCTS], product_[PRODUCTS];
    int32_t dividend_[DIVISIONS], divisor_[DIVISIONS], quotient_[DIVISIONS], rest_[DIVISIONS];
};

}  // namespace engine
