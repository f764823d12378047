// Convolution weights in the order in which the card's MAC array reads them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// panels: [panel][element][ins][width] of floats, output channels padded with zeros.
struct panel_job {
    const float* weight;    // the first output channel's first input channel
    const double* factors;  // of each output channel, or null
    float* panels;
    size_t outs, ins, width;
    ptrdiff_t out_stride, in_stride;  // floats from one channel to the next
    std::vector<ptrdiff_t> taps;      // where each tap lies, in floats
    // G of Winograd's method, [points][3]: an element is one of G g G^T, and taps are 9. Empty: an element is a tap.
    std::vector<double> transform;

    const float* channel(size_t out, size_t in) const {
        return weight + static_cast<ptrdiff_t>(out) * out_stride + static_cast<ptrdiff_t>(in) * in_stride;
    }
    size_t count() const { return (outs + width - 1) / width; }
    size_t points() const { return transform.size() / 3; }
    size_t elements() const { return transform.empty() ? taps.size() : points() * points(); }
};

// Computes in double, so that a packed weight is rounded once. Large jobs are shared by `threads` threads.
// Returns whether all packed weights are finite.
bool pack_panels(const panel_job& job, unsigned threads);
