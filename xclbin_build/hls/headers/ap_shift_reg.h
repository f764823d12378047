// Stands in for the header of Vitis HLS while loops are checked: a shift register, all of whose elements move at once.
#pragma once

template <typename T, unsigned DEPTH>
class ap_shift_reg {
public:
    T shift(T x, unsigned at = DEPTH - 1, bool enable = true) {
#pragma HLS array_partition variable = element complete
        T last = element[at];
        if (enable) {
            for (unsigned i = DEPTH - 1; i > 0; i--) {
#pragma HLS unroll
                element[i] = element[i - 1];
            }
            element[0] = x;
        }
        return last;
    }
    T read(unsigned at = DEPTH - 1) const { return element[at]; }

private:
    T element[DEPTH];
};
