// Short transforms of numbers in registers, and passes of a longer one through local memory.
//
// A transform is Stockham's: after each pass the results lie in order, so nothing is reversed; a pass reads one bank of
// local memory and writes the other. See README.md.
#pragma once
#include "command.hpp"
#include "lib/complex.hpp"
#include "tiles.hpp"

namespace fpga {

// Sixteen transforms side by side, one in each lane: two banks, which passes read and write in turn. On a card they are the
// halves of one memory, so that a single array of operators has both.
struct fft_memory {
    vec16 re[2 * tile::FFT_POINTS];
    vec16 im[2 * tile::FFT_POINTS];
};

FPGA_INLINE cvec16 number_at(const fft_memory& memory, int32_t i) { return {memory.re[i], memory.im[i]}; }
FPGA_INLINE void put_number(fft_memory& memory, int32_t i, const cvec16& x) {
    memory.re[i] = x.re;
    memory.im[i] = x.im;
}

// The factors of all passes of a transform.
constexpr int32_t FFT_TABLE = 3 * tile::FFT_POINTS;  // floats, and some
#ifdef __SYNTHESIS__
typedef vec16 fft_table[(FFT_TABLE + VEC - 1) / VEC];
FPGA_INLINE float table_at(const fft_table& table, int32_t i) { return table[i / VEC][i % VEC]; }
#else
typedef float fft_table[FFT_TABLE];
FPGA_INLINE float table_at(const fft_table& table, int32_t i) { return table[i]; }
#endif

// What a short transform across the lanes of a vector is made of: a number, as cvec16 is 16 of them.
struct complex_lane {
    float re, im;
};
FPGA_INLINE complex_lane operator+(const complex_lane& a, const complex_lane& b) { return {a.re + b.re, a.im + b.im}; }
FPGA_INLINE complex_lane operator-(const complex_lane& a, const complex_lane& b) { return {a.re - b.re, a.im - b.im}; }
FPGA_INLINE complex_lane times_minus_i(const complex_lane& a) { return {a.im, -a.re}; }
FPGA_INLINE complex_lane negated(const complex_lane& a) { return {-a.re, -a.im}; }
FPGA_INLINE cvec16 negated(const cvec16& a) { return {vneg(a.re), vneg(a.im)}; }
FPGA_INLINE complex_lane times(const complex_lane& a, float re, float im) {
    return {a.re * re - a.im * im, a.re * im + a.im * re};
}
FPGA_INLINE cvec16 times(const cvec16& a, float re, float im) { return a * cvec_of(re, im); }
// Times exp(-2 pi i / 8), of which `cosine` is: both parts are the same but for the sign.
FPGA_INLINE complex_lane times_eighth_root(const complex_lane& a, float cosine) {
    return {cosine * (a.re + a.im), cosine * (a.im - a.re)};
}
FPGA_INLINE cvec16 times_eighth_root(const cvec16& a, float cosine) {
    return {opaque(vec16(cosine) * (a.re + a.im)), opaque(vec16(cosine) * (a.im - a.re))};
}

template <class T>
FPGA_INLINE void butterfly_4(T& a, T& b, T& c, T& d) {
    const T even = a + c, odd = a - c, sum = b + d, rotated = times_minus_i(b - d);
    a = even + sum;
    b = odd + rotated;
    c = even - sum;
    d = odd - rotated;
}

// The 16 numbers x[0..16) as 4 x 4: four transforms, factors, four transforms.
template <class T>
FPGA_INLINE void butterfly_16(T (&x)[VEC]) {
    constexpr float COS[4] = {1.0f, 0.92387953251128674f, 0.70710678118654752f, 0.38268343236508977f};
    T y[VEC];
#pragma HLS array_partition variable = y complete
columns:
    UNROLL for (int j = 0; j < 4; j++) {
#pragma HLS unroll
        butterfly_4(x[j], x[4 + j], x[8 + j], x[12 + j]);
    }
    // exp(-2 pi i n / 16) for n up to 9: cosines and sines of the first quarter, turned.
rows:
    UNROLL for (int k = 0; k < 4; k++) {
#pragma HLS unroll
        T row[4];
#pragma HLS array_partition variable = row complete
    factors:
        UNROLL for (int j = 0; j < 4; j++) {
#pragma HLS unroll
            const int n = j * k, quarter = n / 4, left = n % 4;
            T v = x[4 * k + j];
            if (left == 2)
                v = times_eighth_root(v, COS[left]);
            else if (left != 0)
                v = times(v, COS[left], -COS[4 - left]);
            row[j] = quarter == 0 ? v : quarter == 1 ? times_minus_i(v) : negated(v);
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
#pragma HLS array_partition variable = sum complete
#pragma HLS array_partition variable = difference complete
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
FPGA_INLINE void butterfly(cvec16 (&x)[FFT_MOST_RADIX]) {
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
    } else {
        butterfly_odd<5>(x, 5, [&](int n) { return vec16(COS_5[n]); }, [&](int n) { return vec16(SIN_5[n]); });
    }
}

// A pass of a transform: element q of group p + m j goes to element q of group radix p + j, in groups of `size`.
// `from` and `to`: where the banks begin. `roots` and `factors`: places in the table, of exp(-2 pi i j / radix), and of p as
// [p][0 < j < radix] pairs.
struct fft_pass {
    int32_t from, to;
    int32_t roots, factors;
    int32_t radix, m, size;
};

// One pass of radix R. A butterfly reads and writes R numbers, which is R cycles of each bank's port.
template <int R>
inline void fft_pass_of_radix(fft_memory& memory, const fft_table& table, const fft_pass& pass) {
    const int32_t apart = pass.m * pass.size;
    int32_t p = 0, q = 0;
butterflies:
    for (int32_t i = 0; i < apart; i++) {
#pragma HLS loop_tripcount min = 1 max = 512
#pragma HLS pipeline II = R
#pragma HLS dependence variable = memory.re type = inter false
#pragma HLS dependence variable = memory.im type = inter false
        cvec16 x[FFT_MOST_RADIX];
#pragma HLS array_partition variable = x complete
    reads:
        for (int32_t j = 0; j < R; j++) x[j] = number_at(memory, pass.from + i + apart * j);
        butterfly<R>(x);
        const int32_t target = pass.to + R * p * pass.size + q;
        const int32_t w = pass.factors + 2 * (R - 1) * p;
        put_number(memory, target, x[0]);
    writes:
        for (int32_t j = 1; j < R; j++)
            put_number(memory, target + j * pass.size,
                       x[j] * cvec_of(table_at(table, w + 2 * j - 2), table_at(table, w + 2 * j - 1)));
        if (++q == pass.size) {
            q = 0;
            p++;
        }
    }
}

// One pass of an odd radix above 5, from the table of its roots.
#ifdef __SYNTHESIS__
inline void fft_pass_of_any(fft_memory& memory, const fft_table& table, const fft_pass& pass) {
    constexpr int HALF = FFT_MOST_RADIX / 2;
    const int32_t apart = pass.m * pass.size, r = pass.radix;
    float cosine[HALF + 1][HALF + 1], sine[HALF + 1][HALF + 1];
#pragma HLS array_partition variable = cosine complete dim = 0
#pragma HLS array_partition variable = sine complete dim = 0
coefficients:
    for (int32_t k = 1; k <= HALF; k++) {
    of_pairs:
        for (int32_t j = 1; j <= HALF; j++) {
            const int32_t n = j * k % r;
            cosine[k][j] = table_at(table, pass.roots + 2 * n);
            sine[k][j] = -table_at(table, pass.roots + 2 * n + 1);
        }
    }
    cvec16 sum[HALF + 1], difference[HALF + 1];
#pragma HLS array_partition variable = sum complete
#pragma HLS array_partition variable = difference complete
    int32_t p = 0, q = 0;
butterflies_of_any:
    for (int32_t i = 0; i < apart; i++) {
#pragma HLS loop_tripcount min = 1 max = 146
        const cvec16 first = number_at(memory, pass.from + i);
        cvec16 total = first;
    pairs:
        for (int32_t j = 1; j <= r / 2; j++) {
#pragma HLS loop_tripcount min = 3 max = 6
#pragma HLS pipeline II = 6
            const cvec16 low = number_at(memory, pass.from + i + apart * j);
            const cvec16 high = number_at(memory, pass.from + i + apart * (r - j));
            sum[j] = low + high;
            difference[j] = low - high;
            total = total + sum[j];
        }
        const int32_t target = pass.to + r * p * pass.size + q;
        const int32_t w = pass.factors + 2 * (r - 1) * p;
        put_number(memory, target, total);
    results:
        for (int32_t k = 1; k <= r / 2; k++) {
#pragma HLS loop_tripcount min = 3 max = 6
#pragma HLS pipeline II = 6
            cvec16 even = {first.re + vec16(cosine[k][1]) * sum[1].re, first.im + vec16(cosine[k][1]) * sum[1].im};
            cvec16 odd = {vec16(sine[k][1]) * difference[1].im, vec16(sine[k][1]) * difference[1].re};
        terms:
            for (int32_t j = 2; j <= HALF; j++) {
                if (2 * j < r) {
                    const vec16 cos_n(cosine[k][j]), sin_n(sine[k][j]);
                    even = {even.re + cos_n * sum[j].re, even.im + cos_n * sum[j].im};
                    odd = {odd.re + sin_n * difference[j].im, odd.im + sin_n * difference[j].re};
                }
            }
            const int32_t near = w + 2 * k - 2, far = w + 2 * (r - k) - 2;
            const cvec16 near_factor = cvec_of(table_at(table, near), table_at(table, near + 1));
            const cvec16 far_factor = cvec_of(table_at(table, far), table_at(table, far + 1));
            put_number(memory, target + k * pass.size, cvec16{even.re + odd.re, even.im - odd.im} * near_factor);
            put_number(memory, target + (r - k) * pass.size, cvec16{even.re - odd.re, even.im + odd.im} * far_factor);
        }
        if (++q == pass.size) {
            q = 0;
            p++;
        }
    }
}
#else
inline void fft_pass_of_any(fft_memory& memory, const fft_table& table, const fft_pass& pass) {
    const int32_t r = pass.radix, apart = pass.m * pass.size;
    const float* roots = table + pass.roots;
    int32_t p = 0, q = 0;
    for (int32_t i = 0; i < apart; i++) {
        cvec16 x[FFT_MOST_RADIX];
        for (int32_t j = 0; j < r; j++) x[j] = number_at(memory, pass.from + i + apart * j);
        butterfly_odd<0>(
            x, r, [&](int n) { return vec16(roots[2 * n]); }, [&](int n) { return vec16(-roots[2 * n + 1]); });
        const int32_t target = pass.to + r * p * pass.size + q;
        const float* w = table + pass.factors + 2 * (r - 1) * p;
        put_number(memory, target, x[0]);
        for (int32_t j = 1; j < r; j++)
            put_number(memory, target + j * pass.size, x[j] * cvec_of(w[2 * j - 2], w[2 * j - 1]));
        if (++q == pass.size) {
            q = 0;
            p++;
        }
    }
}
#endif

// Floats of the table of a pass.
FPGA_INLINE int32_t fft_pass_floats(int32_t radix, int32_t m) {
    return 2 * (radix - 1) * m + (radix > 5 ? 2 * radix : 0);
}

// `at`: where the pass's part of the table begins.
inline void run_fft_pass(fft_memory& memory, const fft_table& table, int32_t at, fft_pass pass) {
    pass.roots = at;
    pass.factors = at + (pass.radix > 5 ? 2 * pass.radix : 0);
    switch (pass.radix) {
        case 2: fft_pass_of_radix<2>(memory, table, pass); break;
        case 3: fft_pass_of_radix<3>(memory, table, pass); break;
        case 4: fft_pass_of_radix<4>(memory, table, pass); break;
        case 5: fft_pass_of_radix<5>(memory, table, pass); break;
        default: fft_pass_of_any(memory, table, pass); break;
    }
}

}  // namespace fpga
