// Stands in for the header of Vitis HLS while loops are checked. What it has is an IP core, of which nothing is known: a
// source may include it, one that calls it is refused.
#pragma once
#include <complex>

#include "ap_fixed.h"
#include "hls_stream.h"
