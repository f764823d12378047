// Winograd's minimal filtering F(m x m, 3 x 3): m x m outputs of a 3x3 window from a patch of (m + 2) x (m + 2) inputs
// with (m + 2)^2 products instead of 9 m^2.
//
//   `outputs = A^T [ (G g G^T) * (B^T d B) ] A`, where * is element by element.
//
// The transforms come from the Toom-Cook interpolation at the points 0, 1, -1, infinity for m = 2. For m = 4 the points are
// 0, 5/8, -5/8, 3/2, -3/2, infinity. Barabasz et al., "Error analysis and improving the accuracy of Winograd convolution
// for deep neural networks", 2020, describes how points shape the error. All constants are exact in float32. G is applied
// when weights are packed. This file has B^T and A^T for one line of vectors, as sums with common subexpressions.
#pragma once
#include "lib/vector.hpp"

namespace fpga {

// Powers of the points of m = 4. No members: C++14 wants those defined apart where a reference is bound to them.
constexpr float POINT_A1 = 0.625f, POINT_A2 = POINT_A1 * POINT_A1, POINT_A3 = POINT_A2 * POINT_A1;
constexpr float POINT_B1 = 1.5f, POINT_B2 = POINT_B1 * POINT_B1, POINT_B3 = POINT_B2 * POINT_B1;

template <int TILE>
struct winograd_transform;

template <>
struct winograd_transform<2> {
    static constexpr int PATCH = 4;

    FPGA_INLINE static void input(const vec16 (&d)[PATCH], vec16 (&v)[PATCH]) {
        v[0] = d[2] - d[0];
        v[1] = d[2] + d[1];
        v[2] = d[2] - d[1];
        v[3] = d[3] - d[1];
    }

    FPGA_INLINE static void output(const vec16 (&m)[PATCH], vec16 (&y)[2]) {
        y[0] = m[0] + (m[1] + m[2]);
        y[1] = m[3] + (m[1] - m[2]);
    }
};

template <>
struct winograd_transform<4> {
    static constexpr int PATCH = 6;

    FPGA_INLINE static void input(const vec16 (&d)[PATCH], vec16 (&v)[PATCH]) {
        const vec16 a1(POINT_A1), a2(POINT_A2), b1(POINT_B1), b2(POINT_B2);
        const vec16 sum(POINT_A2 + POINT_B2), product(POINT_A2 * POINT_B2);
        const vec16 even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
        const vec16 even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
        v[0] = product * d[0] + (d[4] - sum * d[2]);
        v[1] = even_a + a1 * odd_a;
        v[2] = even_a - a1 * odd_a;
        v[3] = even_b + b1 * odd_b;
        v[4] = even_b - b1 * odd_b;
        v[5] = product * d[1] + (d[5] - sum * d[3]);
    }

    FPGA_INLINE static void output(const vec16 (&m)[PATCH], vec16 (&y)[4]) {
        const vec16 a1(POINT_A1), a2(POINT_A2), a3(POINT_A3), b1(POINT_B1), b2(POINT_B2), b3(POINT_B3);
        const vec16 even_a = m[1] + m[2], odd_a = m[1] - m[2];
        const vec16 even_b = m[3] + m[4], odd_b = m[3] - m[4];
        y[0] = m[0] + (even_a + even_b);
        y[1] = a1 * odd_a + opaque(b1 * odd_b);
        y[2] = a2 * even_a + opaque(b2 * even_b);
        y[3] = a3 * odd_a + (b3 * odd_b + m[5]);
    }
};

}  // namespace fpga
