// Stands in for the header of Vitis HLS: complex numbers whose arithmetic is that of their definition.
#pragma once
#include <complex>

#include "ap_fixed.h"

namespace hls {

template <class T_>
using x_complex = std::complex<T_>;

}  // namespace hls
