// Memory, tensors and random numbers of the engine's benches.
#pragma once
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "../layout.hpp"

namespace bench {

using engine::element_t;
using engine::line_t;

class random_source {
public:
    explicit random_source(uint64_t seed) : engine_(seed) {}
    int integer(int low, int high) { return low + static_cast<int>(engine_() % static_cast<uint64_t>(high - low + 1)); }
    double real(double low, double high) {
        return low + (high - low) * (static_cast<double>(engine_() >> 11) * 0x1p-53);
    }
    bool chance(double p) { return real(0, 1) < p; }
    int pick(std::initializer_list<int> from) {
        return *(from.begin() + integer(0, static_cast<int>(from.size()) - 1));
    }

private:
    std::mt19937_64 engine_;
};

// An element as a number, and the nearest element of one.
inline double number_of(element_t x) { return static_cast<double>(engine::elements::widen(x)); }
inline element_t element_from(double x) {
#if ENGINE_ELEMENT == 0
    return static_cast<element_t>(x);
#else
    return engine::elements::narrow(static_cast<float>(x));
#endif
}
inline element_t random_element(random_source& random) {
#if ENGINE_ELEMENT == 0
    return static_cast<element_t>(random.integer(-128, 127));
#else
    return element_from(random.real(-1, 1));
#endif
}

// A region of lines that begins as random bytes, so that what is not to be read is not zero by chance. Elements of floating
// point are never NaN there, as nothing that an engine has written is.
class region {
public:
    explicit region(uint64_t seed) : random_(seed) { allocate(1); }
    uint32_t allocate(int64_t lines) {
        // Lines between any two; a second operand is read in blocks of 16 pixels, and so beyond its last plane.
        const std::size_t begin = lines_.size() + 1;
        lines_.resize(begin + static_cast<std::size_t>(lines) + engine::CHANNELS / engine::BEAT);
        for (std::size_t i = begin - 1; i < lines_.size(); i++)
            for (int k = 0; k < engine::LINE_ELEMENTS; k++) set_element(lines_[i], k, random_element(random_));
        return static_cast<uint32_t>(begin);
    }
    uint32_t put(const std::vector<line_t>& lines) {
        const uint32_t at = allocate(static_cast<int64_t>(lines.size()));
        std::copy(lines.begin(), lines.end(), lines_.begin() + at);
        return at;
    }
    std::vector<line_t>& lines() { return lines_; }

private:
    random_source random_;
    std::vector<line_t> lines_;
};

// Numbers [image][channel][row][column], and where the same lie as a map.
struct tensor {
    int images = 1, channels = 0, height = 0, width = 0;
    int pixel_channels = 16;  // less if folded
    int32_t zero = 0;         // of int8
    bool wide = false;        // float32 of a bfloat16 engine, a line for each pixel: nothing reads it as elements
    uint32_t at = 0;          // line in the maps
    int32_t image_lines = 0;
    int producer = -1;  // command that makes it
    std::vector<element_t> values;

    int pixels() const { return height * width; }
    int blocks() const { return pixel_channels < 16 ? 1 : (channels + 15) / 16; }
    std::size_t index(int image, int channel, int y, int x) const {
        return ((static_cast<std::size_t>(image) * channels + channel) * height + y) * width + x;
    }
    element_t get(int image, int channel, int y, int x) const { return values[index(image, channel, y, x)]; }
    // Elements from the first line of the image.
    int64_t place(int channel, int pixel) const {
        return pixel_channels < 16 ? int64_t{pixel} * pixel_channels + channel
                                   : engine::map_index(pixels(), pixel, channel);
    }
    int32_t lines_of_image() const {
        if (wide) return static_cast<int32_t>(engine::map_lines(pixels(), channels)) * engine::BEAT;
        return static_cast<int32_t>(pixel_channels < 16
                                        ? (int64_t{pixels()} * pixel_channels + engine::LINE_ELEMENTS - 1) /
                                              engine::LINE_ELEMENTS
                                        : engine::map_lines(pixels(), channels));
    }
};

inline tensor make_tensor(region& maps, int images, int channels, int height, int width, int pixel_channels = 16,
                          bool wide = false) {
    tensor t;
    t.wide = wide;
    t.images = images;
    t.channels = channels;
    t.height = height;
    t.width = width;
    t.pixel_channels = pixel_channels;
    t.image_lines = t.lines_of_image();
    t.at = maps.allocate(int64_t{images} * t.image_lines);
    t.values.resize(static_cast<std::size_t>(images) * channels * t.pixels());
    return t;
}
inline element_t& element_at(std::vector<line_t>& lines, const tensor& t, int image, int channel, int pixel) {
    element_t* first = reinterpret_cast<element_t*>(lines.data() + t.at + int64_t{image} * t.image_lines);
    return first[t.place(channel, pixel)];
}
// A number of a map, whatever its width.
inline double number_at(std::vector<line_t>& lines, const tensor& t, int image, int channel, int pixel) {
    if (!t.wide) return number_of(element_at(lines, t, image, channel, pixel));
    const int64_t at = t.place(channel, pixel);  // a line has 16 of them
    const line_t& line = lines[static_cast<std::size_t>(t.at + int64_t{image} * t.image_lines + at / 16)];
    return static_cast<double>(engine::float_of_bits(engine::bits32_of(line, static_cast<int>(at % 16))));
}
// The tensor with the numbers that its map has.
inline tensor read_tensor(std::vector<line_t>& lines, tensor t) {
    for (int n = 0; n < t.images; n++)
        for (int c = 0; c < t.channels; c++)
            for (int q = 0; q < t.pixels(); q++)
                t.values[t.index(n, c, q / t.width, q % t.width)] = element_at(lines, t, n, c, q);
    return t;
}
// Writes the tensor's numbers to its map; lanes behind the last channel keep what they had, unless `filled` says what they are.
inline void put_tensor(region& maps, const tensor& t, const element_t* filled = nullptr) {
    for (int n = 0; n < t.images; n++)
        for (int q = 0; q < t.pixels(); q++) {
            for (int c = 0; c < t.channels; c++)
                element_at(maps.lines(), t, n, c, q) = t.get(n, c, q / t.width, q % t.width);
            if (filled)
                for (int c = t.channels; c < 16 * t.blocks(); c++) element_at(maps.lines(), t, n, c, q) = *filled;
        }
}

}  // namespace bench
