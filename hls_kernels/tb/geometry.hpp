// Geometries of convolutions, for the test benches of conv2d and conv2d_int8.
#pragma once
#include <cstdio>
#include <string>

#include "tb.hpp"

namespace tb {

// Offset of a pixel's first channel in a batch of images; strides of image, row, column.
inline size_t pixel_at(int64_t base, const int32_t stride[3], int n, int y, int x) {
    return static_cast<size_t>(base) + static_cast<size_t>(n) * stride[0] + static_cast<size_t>(y) * stride[1] +
           static_cast<size_t>(x) * stride[2];
}

inline std::string text_of_pixel(int n, int y, int x, int channel) {
    return "image " + std::to_string(n) + ", row " + std::to_string(y) + ", column " + std::to_string(x) +
           ", channel " + std::to_string(channel);
}

inline int output_size(int in, int before, int after, int kernel, int stride, int dilation) {
    return (in + before + after - (kernel - 1) * dilation - 1) / stride + 1;
}

struct geometry {
    int batch, groups, in_channels, height, width, out_channels;
    int kernel[2], stride[2], padding[2], dilation[2];
    int after[2];  // padding below and right
    int vectors;
    bool planar, dense;
};

// The fields of a command that say so; false where the kernel reaches beyond the padded image.
template <class COMMAND>
bool take_geometry(COMMAND& c, const geometry& g) {
    c.batch = g.batch;
    c.in_height = g.height;
    c.in_width = g.width;
    for (int i = 0; i < 2; i++) {
        c.kernel[i] = g.kernel[i];
        c.stride[i] = g.stride[i];
        c.padding[i] = g.padding[i];
        c.dilation[i] = g.dilation[i];
    }
    const int reach_y = (g.kernel[0] - 1) * g.dilation[0] + 1, reach_x = (g.kernel[1] - 1) * g.dilation[1] + 1;
    if (g.height + g.padding[0] + g.after[0] < reach_y || g.width + g.padding[1] + g.after[1] < reach_x) return false;
    c.out_height = output_size(g.height, g.padding[0], g.after[0], g.kernel[0], g.stride[0], g.dilation[0]);
    c.out_width = output_size(g.width, g.padding[1], g.after[1], g.kernel[1], g.stride[1], g.dilation[1]);
    return true;
}

inline std::string text_of(const geometry& g) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "%d x %d x %d x %d x %d -> %d, kernel %d x %d, stride %d %d, padding %d %d + %d %d, dilation %d %d, "
                  "vectors %d, planar %d, dense %d",
                  g.batch, g.groups, g.in_channels, g.height, g.width, g.out_channels, g.kernel[0], g.kernel[1],
                  g.stride[0], g.stride[1], g.padding[0], g.padding[1], g.after[0], g.after[1], g.dilation[0],
                  g.dilation[1], g.vectors, g.planar, g.dense);
    return text;
}

inline geometry random_geometry(random_source& random, std::initializer_list<int> in_channels) {
    geometry g;
    g.batch = random.pick({1, 1, 2, 3});
    g.groups = random.pick({1, 1, 1, 2, 4});
    g.in_channels = random.pick(in_channels);
    g.out_channels = random.pick({1, 3, 10, 16, 17, 58, 64, 100, 130});
    if (g.groups > 1) g.out_channels = random.pick({1, 2, 4, 16, 20, 32, 48});
    g.height = random.pick({1, 2, 5, 7, 9, 14});
    g.width = random.pick({1, 3, 6, 7, 8, 14, 19});
    for (int i = 0; i < 2; i++) {
        g.kernel[i] = random.pick({1, 1, 2, 3, 3, 5, 7});
        g.stride[i] = random.pick({1, 1, 2, 3});
        g.padding[i] = random.pick({0, 0, 1, 2, g.kernel[i] / 2});
        g.after[i] = random.pick({g.padding[i], g.padding[i], 0, 3});
        g.dilation[i] = random.pick({1, 1, 1, 2, 3});
    }
    g.vectors = random.integer(1, fpga::tile::MAX_VECTORS);
    g.planar = random.chance(0.3);
    g.dense = random.chance(0.5);
    return g;
}

}  // namespace tb
