// Record of the core winograd. Part of command.hpp, which says how records are written and what their units are.
#pragma once
#include <cstdint>

#include "lib/place.hpp"

namespace fpga {

// Convolution of 3x3, stride 1, dilation 1, one group, by Winograd's minimal filtering: tiles of tile_size x tile_size
// outputs (2 or 4) from patches of elements = (tile_size + 2)^2 inputs. A result is a sum over its tile's whole patch, so
// that an input that is not finite makes every output of the tile NaN or infinite.
// Weights: G g G^T of transform.hpp, [panel][element][input channel][16 * vectors], zero-padded output channels;
// bias: [panels * 16 * vectors]. Input pixels are aligned to 16 floats and read to whole vectors.
struct winograd_command {
    int32_t opcode;
    int32_t slices;
    place_t input;
    uint32_t weight;
    uint32_t bias;
    place_t residual;
    place_t output;
    int32_t tile_size;
    int32_t batch;
    int32_t in_channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;
    int32_t out_height;
    int32_t out_width;
    int32_t padding[2];    // above, left; below and right follow from the output's size
    int32_t in_stride[3];  // image, row, column; the channel's is 1
    int32_t out_stride[3];
    int32_t residual_stride[3];
    int32_t vectors;
    int32_t activation;
    float act_a;
    float act_b;
};

}  // namespace fpga
