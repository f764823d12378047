// Stands in for the header of Vitis HLS: a shift register, all of whose elements move at once.
#pragma once

template <typename T_, unsigned DEPTH_>
class ap_shift_reg {
public:
    T_ shift(T_ x, unsigned at = DEPTH_ - 1, bool enable = true) {
#pragma HLS array_partition variable = element complete
        T_ last = element[at];
        if (enable) {
            for (unsigned i = DEPTH_ - 1; i > 0; i--) {
#pragma HLS unroll
                element[i] = element[i - 1];
            }
            element[0] = x;
        }
        return last;
    }
    T_ read(unsigned at = DEPTH_ - 1) const { return element[at]; }

private:
    T_ element[DEPTH_];
};
