// Errors in words for a program that knows nothing of fpga_dynamo: XRT passes on a state or an errno only.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <string>

namespace xrt_report {

// `fpga-dynamo emulate` sets it; fpga_dynamo's own binding asks for the sentences and raises them.
constexpr const char* VARIABLE = "FPGA_DYNAMO_ERRORS_ON_STDERR";

inline void report(const std::string& sentence) {
    static const bool wanted = std::getenv(VARIABLE) != nullptr;
    if (wanted && !sentence.empty()) std::fprintf(stderr, "fpga_dynamo: %s\n", sentence.c_str());
}

}  // namespace xrt_report
