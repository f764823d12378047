// Short transforms of numbers in registers, and passes of a longer one through local memory.
//
// A transform is Stockham's: after each pass the results lie in order, so nothing is reversed; a pass reads one bank of
// local memory and writes the other. See README.md.
#pragma once
#include "command.hpp"
#include "lib/complex.hpp"
#include "tiles.hpp"

namespace fpga {

// Sixteen transforms side by side, one in each lane.
struct fft_bank {
    vec16 re[tile::FFT_POINTS];
    vec16 im[tile::FFT_POINTS];
};

FPGA_INLINE cvec16 bank_at(const fft_bank& bank, int32_t i) { return {bank.re[i], bank.im[i]}; }
FPGA_INLINE void put_in_bank(fft_bank& bank, int32_t i, const cvec16& x) {
    bank.re[i] = x.re;
    bank.im[i] = x.im;
}

FPGA_INLINE void butterfly_4(cvec16& a, cvec16& b, cvec16& c, cvec16& d) {
    const cvec16 even = a + c, odd = a - c, sum = b + d, turned = turned_back(b - d);
    a = even + sum;
    b = odd + turned;
    c = even - sum;
    d = odd - turned;
}

// The 16 numbers x[0..16) as 4 x 4: four transforms, factors, four transforms.
FPGA_INLINE void butterfly_16(cvec16 (&x)[VEC]) {
    constexpr float COS[4] = {1.0f, 0.92387953251128674f, 0.70710678118654752f, 0.38268343236508977f};
    cvec16 y[VEC];
columns:
    UNROLL for (int j = 0; j < 4; j++) {
#pragma HLS unroll
        butterfly_4(x[j], x[4 + j], x[8 + j], x[12 + j]);
    }
    // exp(-2 pi i n / 16) for n up to 9: cosines and sines of the first quarter, turned.
rows:
    UNROLL for (int k = 0; k < 4; k++) {
#pragma HLS unroll
        cvec16 row[4];
    factors:
        UNROLL for (int j = 0; j < 4; j++) {
#pragma HLS unroll
            const int n = j * k, quarter = n / 4, left = n % 4;
            cvec16 v = x[4 * k + j];
            if (left == 2) {  // both parts of the factor are the same but for the sign
                v = {opaque(vec16(COS[2]) * (v.re + v.im)), opaque(vec16(COS[2]) * (v.im - v.re))};
            } else if (left != 0) {
                v = v * cvec_of(COS[left], -COS[4 - left]);
            }
            row[j] = quarter == 0 ? v : quarter == 1 ? turned_back(v) : cvec16{vneg(v.re), vneg(v.im)};
        }
        butterfly_4(row[0], row[1], row[2], row[3]);
    results:
        UNROLL for (int j = 0; j < 4; j++) {
#pragma HLS unroll
            y[4 * j + k] = row[j];
        }
    }
copies:
    UNROLL for (int j = 0; j < VEC; j++) {
#pragma HLS unroll
        x[j] = y[j];
    }
}

// A transform of an odd number of points R (0: of `radix`, known at run time) by pairs x[j] and x[R - j]: sums meet
// cosines, differences sines. cosine(n), sine(n): of 2 pi n / R.
template <int R, class COSINE, class SINE>
FPGA_INLINE void butterfly_odd(cvec16 (&x)[FFT_MOST_RADIX], int32_t radix, COSINE cosine, SINE sine) {
    const int32_t r = R > 0 ? R : radix, half = r / 2;
    cvec16 sum[FFT_MOST_RADIX / 2 + 1], difference[FFT_MOST_RADIX / 2 + 1];
    cvec16 total = x[0];
pairs:
    for (int32_t j = 1; j <= half; j++) {
#pragma HLS loop_tripcount min = 1 max = 6
        sum[j] = x[j] + x[r - j];
        difference[j] = x[j] - x[r - j];
        total = total + sum[j];
    }
    const cvec16 first = x[0];
    x[0] = total;
results:
    for (int32_t k = 1; k <= half; k++) {
#pragma HLS loop_tripcount min = 1 max = 6
        const vec16 c = cosine(k), s = sine(k);
        cvec16 even = {first.re + c * sum[1].re, first.im + c * sum[1].im};
        cvec16 odd = {opaque(s * difference[1].im), opaque(s * difference[1].re)};
    terms:
        for (int32_t j = 2; j <= half; j++) {
#pragma HLS loop_tripcount min = 0 max = 5
            const int32_t n = j * k % r;
            const vec16 cos_n = cosine(n), sin_n = sine(n);
            even = {even.re + cos_n * sum[j].re, even.im + cos_n * sum[j].im};
            odd = {odd.re + sin_n * difference[j].im, odd.im + sin_n * difference[j].re};
        }
        x[k] = {even.re + odd.re, even.im - odd.im};
        x[r - k] = {even.re - odd.re, even.im + odd.im};
    }
}

template <int R>
FPGA_INLINE void butterfly(cvec16 (&x)[FFT_MOST_RADIX], int32_t radix, const float* roots) {
    constexpr float COS_3[3] = {1, -0.5f, -0.5f}, SIN_3[3] = {0, 0.86602540378443865f, -0.86602540378443865f};
    constexpr float COS_5[5] = {1, 0.30901699437494742f, -0.80901699437494742f, -0.80901699437494742f,
                                0.30901699437494742f};
    constexpr float SIN_5[5] = {0, 0.95105651629515357f, 0.58778525229247313f, -0.58778525229247313f,
                                -0.95105651629515357f};
    if (R == 2) {
        const cvec16 a = x[0], b = x[1];
        x[0] = a + b;
        x[1] = a - b;
    } else if (R == 4) {
        butterfly_4(x[0], x[1], x[2], x[3]);
    } else if (R == 3) {
        butterfly_odd<3>(x, 3, [&](int n) { return vec16(COS_3[n]); }, [&](int n) { return vec16(SIN_3[n]); });
    } else if (R == 5) {
        butterfly_odd<5>(x, 5, [&](int n) { return vec16(COS_5[n]); }, [&](int n) { return vec16(SIN_5[n]); });
    } else {
        butterfly_odd<0>(
            x, radix, [&](int n) { return vec16(roots[2 * n]); }, [&](int n) { return vec16(-roots[2 * n + 1]); });
    }
}

// One pass of radix R (0: `radix`): element q of group p + m j goes to element q of group radix p + j, in groups of
// `size`. factors: of p as [p][0 < j < radix] pairs.
template <int R>
inline void fft_pass(const fft_bank& from, fft_bank& to, const float* roots, const float* factors, int32_t radix,
                     int32_t m, int32_t size) {
    const int32_t r = R > 0 ? R : radix, apart = m * size;
    int32_t p = 0, q = 0;
butterflies:
    for (int32_t i = 0; i < apart; i++) {
#pragma HLS loop_tripcount min = 1 max = 512
#pragma HLS pipeline II = 4
        cvec16 x[FFT_MOST_RADIX];
    reads:
        for (int32_t j = 0; j < r; j++) {
#pragma HLS loop_tripcount min = 2 max = 13
            x[j] = bank_at(from, i + apart * j);
        }
        butterfly<R>(x, radix, roots);
        const int32_t target = r * p * size + q;
        const float* w = factors + 2 * (r - 1) * p;
        put_in_bank(to, target, x[0]);
    writes:
        for (int32_t j = 1; j < r; j++) {
#pragma HLS loop_tripcount min = 1 max = 12
            put_in_bank(to, target + j * size, x[j] * cvec_of(w[2 * j - 2], w[2 * j - 1]));
        }
        if (++q == size) {
            q = 0;
            p++;
        }
    }
}

// Floats of the table of a pass.
FPGA_INLINE int32_t fft_pass_floats(int32_t radix, int32_t m) {
    return 2 * (radix - 1) * m + (radix > 5 ? 2 * radix : 0);
}

FPGA_INLINE void fft_pass_of(const fft_bank& from, fft_bank& to, const float* table, int32_t radix, int32_t m,
                             int32_t size) {
    switch (radix) {
        case 2: fft_pass<2>(from, to, table, table, radix, m, size); break;
        case 3: fft_pass<3>(from, to, table, table, radix, m, size); break;
        case 4: fft_pass<4>(from, to, table, table, radix, m, size); break;
        case 5: fft_pass<5>(from, to, table, table, radix, m, size); break;
        default: fft_pass<0>(from, to, table, table + 2 * radix, radix, m, size); break;
    }
}

}  // namespace fpga
