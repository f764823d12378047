// Stands in for the header of Vitis HLS, by which a source has the names of fixed-point types, too. AMD's brings in headers of
// the C++ library, and sources rely on that.
#pragma once
#ifndef __HLS_CHECK__
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iomanip>
#include <iostream>
#include <limits>
#include <sstream>
#include <string>
#include <vector>
#endif

#include "ap_fixed.h"
#if defined(__FLT16_MAX__) && !defined(__HLS_CHECK__)
#include "hls_half.h"
#endif
#include "ap_integers.hpp"

#ifndef __HLS_CHECK__
// As digits, and for numbers with a fixed point as a number of floating point; a word that is neither sets the failbit.
template <int W_, bool S_>
std::istream& operator>>(std::istream& in, ap_int_base<W_, S_>& x) {
    std::string digits;
    if (!(in >> digits)) return in;
    try {
        x = ap_int_base<W_, S_>(digits.c_str(), 10);
    } catch (const std::invalid_argument&) {
        in.setstate(std::ios::failbit);
    }
    return in;
}
template <int W_, int I_, bool S_>
std::istream& operator>>(std::istream& in, ap_fixed_base<W_, I_, S_>& x) {
    double value;
    if (in >> value) x = ap_fixed_base<W_, I_, S_>(value);
    return in;
}
#endif
