// Checks of a command before it runs: every extent that it touches lies in its region, and the record is well formed.
// Host code of the emulation: an error costs one sentence instead of a crash of the process.
#pragma once
#ifndef __SYNTHESIS__
#include <cstdint>
#include <string>

#include "windows.hpp"

namespace fpga {

enum region : int32_t { REGION_COMMANDS = 0, REGION_ARENA = 1, REGION_WEIGHTS = 2 };

// What a nest of strided dimensions reaches, in elements relative to its first one: [low, high).
class extent {
public:
    explicit extent(int64_t contiguous = 1) : high_(contiguous) {}

    // `count` steps of `stride` elements; a count below 1 makes the extent empty.
    extent& dim(int64_t count, int64_t stride) {
        if (count < 1) {
            empty_ = true;
            return *this;
        }
        const wide reach = static_cast<wide>(count - 1) * stride;
        (reach < 0 ? low_ : high_) += reach;
        return *this;
    }

private:
    friend class bounds;
    typedef __int128 wide;  // products of a hostile record must not wrap around
    wide low_ = 0;
    wide high_;
    bool empty_ = false;
};

// Pixels of `channels` contiguous elements in a batch of images; strides of image, row and column.
inline extent pixels_extent(int64_t channels, int64_t batch, int64_t height, int64_t width, const int32_t stride[3]) {
    return extent(channels).dim(batch, stride[0]).dim(height, stride[1]).dim(width, stride[2]);
}

// Cores that count distances from an operand's first element in uint32_t go forward only.
// \tparam DIMENSIONS Number of dimensions.
template <int DIMENSIONS>
bool goes_forward(const int32_t (&stride)[DIMENSIONS]) {
    for (const int32_t s : stride)
        if (s < 0) return false;
    return true;
}

class bounds {
public:
    // Sizes of the regions in bytes.
    bounds(uint64_t commands, uint64_t arena, uint64_t weights, const windows& elsewhere = {})
        : size_{commands, arena, weights}, elsewhere_(elsewhere) {}

    // Whether the core of the commands that are checked next follows windows.
    void core_follows_windows(bool does) { follows_windows_ = does; }
    // Whether it was a window that a command was refused for.
    bool for_a_window() const { return for_a_window_; }

    // Offset and extent count elements of `bytes` bytes each.
    void read(region where, int64_t offset, const extent& e, int32_t bytes = 4) {
        check("reads", where, offset, e, bytes, 0);
    }
    void read(region where, int64_t offset, int64_t elements, int32_t bytes = 4) {
        read(where, offset, extent(elements), bytes);
    }

    // The arena's first beat holds the status record and belongs to no command.
    void write(region where, int64_t offset, const extent& e, int32_t bytes = 4) {
        check("writes", where, offset, e, bytes, where == REGION_ARENA ? STATUS_BYTES : 0);
    }
    void write(region where, int64_t offset, int64_t elements, int32_t bytes = 4) {
        write(where, offset, extent(elements), bytes);
    }

    // A sentence without its subject, e.g. "has a kernel of size 0".
    void require(bool condition, const char* sentence) {
        if (!condition && message_.empty()) message_ = sentence;
    }
    // \tparam Strides Arrays of strides.
    template <class... Strides>
    void require_forward(const Strides&... stride) {
        require((goes_forward(stride) && ...), "has a negative stride");
    }

    bool ok() const { return message_.empty(); }
    // The first complaint, to follow "command 7 (conv2d) ".
    const std::string& message() const { return message_; }

private:
    static constexpr int64_t STATUS_BYTES = 64;

    void check(const char* verb, region where, int64_t offset, const extent& e, int32_t bytes, int64_t reserved) {
        static const char* const name[] = {"commands", "arena", "weights"};
        if (e.empty_ || !message_.empty()) return;
        const extent::wide low = (e.low_ + offset) * bytes, high = (e.high_ + offset) * bytes;
        if (low >= reserved && high <= static_cast<extent::wide>(size_[where])) {
            if (where == REGION_ARENA && !elsewhere_.empty()) check_windows(offset * bytes, low, high);
            return;
        }
        message_ = std::string(verb) + " bytes " + text(low) + " to " + text(high) + " of the " + name[where] +
                   " region, which spans " + text(reserved) + " to " + std::to_string(size_[where]);
    }
    // Of an operand whose first element is at byte `first` and which reaches the bytes [low, high).
    void check_windows(int64_t first, extent::wide low, extent::wide high) {
        const windows::relation how = elsewhere_.of(first, static_cast<int64_t>(low), static_cast<int64_t>(high));
        if (how == windows::APART || (how == windows::INSIDE && follows_windows_)) return;
        for_a_window_ = true;
        message_ = "reaches bytes " + text(low) + " to " + text(high) + " of the arena, part of which lies elsewhere";
    }
    static std::string text(extent::wide x) {
        const extent::wide limit = INT64_MAX;
        if (x > limit) return "beyond 2^63";
        if (x < -limit) return "below -2^63";
        return std::to_string(static_cast<int64_t>(x));
    }

    uint64_t size_[3];
    windows elsewhere_;
    bool follows_windows_ = false, for_a_window_ = false;
    std::string message_;
};

// What the window of a convolution must satisfy: kernel, stride, dilation, padding, and how far it reaches.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
void convolution_bounds(const COMMAND& c, bounds& b) {
    b.require(c.out_height > 0 && c.out_width > 0, "has an empty output");
    b.require(c.kernel[0] > 0 && c.kernel[1] > 0, "has an empty kernel");
    b.require(c.stride[0] > 0 && c.stride[1] > 0, "has a stride below 1");
    b.require(c.dilation[0] > 0 && c.dilation[1] > 0, "has a dilation below 1");
    b.require(c.padding[0] >= 0 && c.padding[1] >= 0, "has a negative padding");
    for (int axis = 0; axis < 2; axis++) {
        const double out = axis == 0 ? c.out_height : c.out_width;
        const double reach = out * c.stride[axis] + static_cast<double>(c.kernel[axis]) * c.dilation[axis];
        b.require(reach + c.padding[axis] <= 1 << 30, "has windows further away than 32-bit arithmetic can count");
    }
}

// The residual and the output of a convolution: pixels of `channels` elements of so many bytes.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
void convolution_results(const COMMAND& c, int64_t channels, bounds& b, int32_t residual_bytes = 4,
                         int32_t output_bytes = 4) {
    if (c.residual != ABSENT)
        b.read(REGION_ARENA, c.residual, pixels_extent(channels, c.batch, c.out_height, c.out_width, c.residual_stride),
               residual_bytes);
    b.write(REGION_ARENA, c.output, pixels_extent(channels, c.batch, c.out_height, c.out_width, c.out_stride),
            output_bytes);
}

// What the shapes of a batched product of matrices a and b must satisfy.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
void product_bounds(const COMMAND& c, int32_t most_vectors, bounds& b) {
    b.require(c.batch[0] > 0 && c.batch[1] > 0 && c.rows > 0 && c.columns > 0 && c.depth > 0, "has an empty operand");
    b.require(c.vectors > 0 && c.vectors <= most_vectors, "has a panel width that the kernel was not built for");
    b.require(c.b_packed != 0 || c.b_stride[2] == 1 || c.b_stride[3] == 1,
              "has a b in which neither rows nor columns are contiguous");
    b.require_forward(c.a_stride, c.b_stride, c.out_stride, c.residual_stride);
}

// The second operand of a product where it lies in the arena.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
extent arena_b_extent(const COMMAND& c) {
    return extent()
        .dim(c.batch[0], c.b_stride[0])
        .dim(c.batch[1], c.b_stride[1])
        .dim(c.depth, c.b_stride[2])
        .dim(c.columns, c.b_stride[3]);
}

// The residual and the output of a product: rows of `columns` elements of so many bytes.
// \tparam COMMAND Command record with the fields that are read here.
template <class COMMAND>
void product_results(const COMMAND& c, int64_t columns, bounds& b, int32_t residual_bytes = 4,
                     int32_t output_bytes = 4) {
    if (c.residual != ABSENT)
        b.read(REGION_ARENA, c.residual, pixels_extent(columns, c.batch[0], c.batch[1], c.rows, c.residual_stride),
               residual_bytes);
    b.write(REGION_ARENA, c.output, pixels_extent(columns, c.batch[0], c.batch[1], c.rows, c.out_stride), output_bytes);
}

}  // namespace fpga
#endif
