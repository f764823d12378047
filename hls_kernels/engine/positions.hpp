// Positions in the window, and the banks and rows that they lie in (plan.hpp).
#pragma once
#include "plan.hpp"

namespace engine {

typedef number<POSITION_BITS> position_t;
typedef number<ROW_BITS> row_t;
typedef number<4> bank_t;  // P for none

struct bank_place_t {
    row_t row;
    bank_t bank;
};
// Positions of taps may lie so far before the window's first one.
constexpr int BEFORE = P * WINDOW_ROWS;
// Division by a constant; in hardware a product.
inline bank_place_t place_of(const position_t& position) {
#pragma HLS inline
    bank_place_t at;
    const number<ROW_BITS + 1> row = static_cast<uint32_t>(static_cast<ap_uint<POSITION_BITS>>(position)) / P;
    at.row = row;
    at.bank = position - row * P;
    return at;
}
inline bank_place_t behind(const bank_place_t& at, int more) {
#pragma HLS inline
    const number<5> bank = at.bank + more;
    bank_place_t r;
    r.row = when<row_t>(bank >= P, at.row + 1, at.row);
    r.bank = when<bank_t>(bank >= P, bank - P, bank);
    return r;
}

}  // namespace engine
