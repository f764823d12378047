// Convolution weights in the order in which the card's MAC array reads them.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

// weight: [outs][ins][taps] floats; panels: [panel][element][ins][width], output channels padded with zeros.
struct panel_job {
    const float* weight;
    const double* factors;  // of each output channel, or null
    float* panels;
    size_t outs, ins, taps, width;
    // G of Winograd's method, [points][3]: an element is one of G g G^T, and taps are 9. Empty: an element is a tap.
    std::vector<double> transform;

    size_t count() const { return (outs + width - 1) / width; }
    size_t points() const { return transform.size() / 3; }
    size_t elements() const { return transform.empty() ? taps : points() * points(); }
};

// Computes in double, so that a packed weight is rounded once. Large jobs are shared by `threads` threads.
void pack_panels(const panel_job& job, unsigned threads);
