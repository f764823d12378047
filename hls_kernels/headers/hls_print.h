// Stands in for the header of Vitis HLS on the emulator: a format as printf has it, and one number at most.
#pragma once
#include <cstdio>

namespace hls {

inline void print(const char* text) { std::fputs(text, stdout); }
template <class T_>
inline void print(const char* format, T_ value) {
    std::printf(format, value);  // NOLINT: the format is the caller's
}

}  // namespace hls
