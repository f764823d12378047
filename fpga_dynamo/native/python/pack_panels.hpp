// Convolution weights in the order in which the card's MAC array reads them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// panels: [panel][element][ins][width] of what the weights are, output channels padded with zeros. Weights are floats, or
// patterns of 16 bits, which are only put in order.
struct panel_job {
    const void* weight;     // the first output channel's first input channel
    const double* factors;  // of each output channel, or null
    void* panels;
    size_t outs, ins, width;
    ptrdiff_t out_stride, in_stride;  // elements from one channel to the next
    std::vector<ptrdiff_t> taps;      // where each tap lies, in elements
    uint16_t infinity;                // 0: floats; else an infinity of 16 bits: NaN have all of its bits, too
    // G of Winograd's method, [points][3]: an element is one of G g G^T, and taps are 9. Empty: an element is a tap.
    std::vector<double> transform;

    template <class T>
    const T* channel(size_t out, size_t in) const {
        return static_cast<const T*>(weight) + static_cast<ptrdiff_t>(out) * out_stride +
               static_cast<ptrdiff_t>(in) * in_stride;
    }
    size_t count() const { return (outs + width - 1) / width; }
    size_t points() const { return transform.size() / 3; }
    size_t elements() const { return transform.empty() ? taps.size() : points() * points(); }
};

// Computes in double, so that a packed weight is rounded once. Large jobs are shared by `threads` threads.
// Returns whether all packed weights are finite.
bool pack_panels(const panel_job& job, unsigned threads);
