// Networks as command lists, for counting cycles: shapes and operands in memory, no numbers.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "../choose.hpp"

namespace bench {

using engine::mac_command;

struct map_t {
    int height = 0, width = 0, channels = 0;
    uint32_t at = 0;
    int producer = -1;
    int pixel_channels = 16;
    int pixels() const { return height * width; }
};

struct named_command {
    std::string name;
    double macs;  // useful ones
};

class network {
public:
    std::string name;
    std::vector<mac_command> commands;
    std::vector<named_command> names;
    uint32_t maps = 1, weights = 0;  // lines that are taken

    explicit network(std::string name) : name(std::move(name)) {}

    // An image of a few channels, folded.
    map_t image(int height, int width) {
        map_t m{height, width, 3, maps, -1, 4};
        maps += static_cast<uint32_t>(engine::lines_of_bytes(int64_t{height} * width * 4 * engine::ELEMENT_BYTES));
        return m;
    }
    map_t map(int height, int width, int channels) {
        map_t m{height, width, channels, maps, -1, 16};
        maps += static_cast<uint32_t>(engine::map_lines(m.pixels(), channels));
        return m;
    }
    // `into`: a map whose channels from `from` on are written.
    map_t conv(const std::string& what, const map_t& in, int channels, int kernel_y, int kernel_x, int stride,
               int pad_y, int pad_x, const map_t* residual = nullptr, int groups = 1, const map_t* into = nullptr,
               int from = 0) {
        mac_command c = blank(in);
        c.kernel[0] = kernel_y;
        c.kernel[1] = kernel_x;
        c.stride[0] = c.stride[1] = stride;
        c.padding[0] = pad_y;
        c.padding[1] = pad_x;
        const bool depthwise = groups == in.channels && groups > 1;
        c.weight_kind = depthwise ? engine::WEIGHT_DIAGONAL : engine::WEIGHT_PACKED;
        c.group_in = in.channels / groups;
        c.group_out = channels / groups;
        const double macs = double(channels) * kernel_y * kernel_x * in.channels / groups;
        return add(what, c, in, channels, residual, into, from, macs);
    }
    map_t conv(const std::string& what, const map_t& in, int channels, int kernel, int stride = 1,
               const map_t* residual = nullptr) {
        return conv(what, in, channels, kernel, kernel, stride, kernel / 2, kernel / 2, residual);
    }
    map_t max_pool(const std::string& what, const map_t& in, int kernel, int stride, int padding) {
        mac_command c = blank(in);
        c.operation = engine::OPERATION_MAXIMUM;
        c.pad = -128;
        c.kernel[0] = c.kernel[1] = kernel;
        c.stride[0] = c.stride[1] = stride;
        c.padding[0] = c.padding[1] = padding;
        return add(what, c, in, in.channels, nullptr, nullptr, 0, 0);
    }
    // As a depthwise convolution with weights of 1.
    map_t average_pool(const std::string& what, const map_t& in, int kernel_y, int kernel_x, int stride, int padding) {
        mac_command c = blank(in);
        c.weight_kind = engine::WEIGHT_DIAGONAL;
        c.kernel[0] = kernel_y;
        c.kernel[1] = kernel_x;
        c.stride[0] = c.stride[1] = stride;
        c.padding[0] = c.padding[1] = padding;
        return add(what, c, in, in.channels, nullptr, nullptr, 0, 0);
    }

private:
    static mac_command blank(const map_t& in) {
        mac_command c = {};
        c.opcode = engine::ENGINE_MAC;
        c.residual = c.sums = engine::NO_OPERAND;
        c.pixel_channels = in.pixel_channels;
        c.in_blocks = in.pixel_channels < 16 ? 1 : (in.channels + 15) / 16;
        c.in_height = in.height;
        c.in_width = in.width;
        c.kernel[0] = c.kernel[1] = c.stride[0] = c.stride[1] = c.dilation[0] = c.dilation[1] = 1;
        c.heads[0] = c.heads[1] = c.images = 1;
        c.low = -128;
        c.high = 127;
        c.input = in.at;
        return c;
    }
    map_t add(const std::string& what, mac_command c, const map_t& in, int channels, const map_t* residual,
              const map_t* into, int from, double macs_of_pixel) {
        const int height = (in.height + 2 * c.padding[0] - c.kernel[0]) / c.stride[0] + 1;
        const int width = (in.width + 2 * c.padding[1] - c.kernel[1]) / c.stride[1] + 1;
        map_t out = into ? *into : map(height, width, channels);
        c.out_blocks = (channels + 15) / 16;
        c.out_height = height;
        c.out_width = width;
        c.output = out.at + static_cast<uint32_t>(from / 16 * engine::plane_lines(out.pixels()));
        const int position = static_cast<int>(commands.size());
        if (in.producer >= 0) c.input_after = position - in.producer;
        if (residual) {
            c.residual = residual->at;
            if (residual->producer >= 0) c.residual_after = position - residual->producer;
        }
        const uint32_t sums = maps;
        const std::vector<engine::part_t> parts = engine::choose(c, sums);
        if (parts.empty()) throw std::runtime_error(name + ", " + what + ": does not fit");
        if (parts.size() > 1) maps += static_cast<uint32_t>(c.out_blocks * height * width);
        for (const engine::part_t& part : parts) {
            mac_command t = part.c;
            t.weight = weights;
            weights += static_cast<uint32_t>(engine::packed_lines(t, engine::plan_of(t)));
            t.params = weights;
            weights += static_cast<uint32_t>(3 * t.out_blocks);
            commands.push_back(t);
            names.push_back({what, macs_of_pixel * height * width / parts.size()});
        }
        out.producer = static_cast<int>(commands.size()) - 1;
        return out;
    }
};

inline network resnet(const std::string& name, const std::vector<int>& blocks, bool bottleneck) {
    network n(name);
    map_t x = n.image(224, 224);
    x = n.conv("conv1", x, 64, 7, 2);
    x = n.max_pool("pool", x, 3, 2, 1);
    for (std::size_t i = 0; i < blocks.size(); i++)
        for (int j = 0; j < blocks[i]; j++) {
            const int channels = 64 << i, stride = i && !j ? 2 : 1;
            const std::string at = "l" + std::to_string(i + 1) + "." + std::to_string(j) + ".";
            map_t shortcut = x;
            if (bottleneck) {
                if (!j) shortcut = n.conv(at + "down", x, channels * 4, 1, stride);
                map_t y = n.conv(at + "a", x, channels, 1);
                y = n.conv(at + "b", y, channels, 3, stride);
                x = n.conv(at + "c", y, channels * 4, 1, 1, &shortcut);
            } else {
                if (stride == 2) shortcut = n.conv(at + "down", x, channels, 1, stride);
                map_t y = n.conv(at + "a", x, channels, 3, stride);
                x = n.conv(at + "b", y, channels, 3, 1, &shortcut);
            }
        }
    x = n.average_pool("average", x, x.height, x.width, 1, 0);
    n.conv("fc", x, 1000, 1);
    return n;
}

}  // namespace bench
