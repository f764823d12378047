// Programs of one operator that fpga_dynamo/device/operators.py compiles.
#pragma once
#include <torch/csrc/utils/pybind.h>

#include <memory>

#include "operators.hpp"

namespace fpga_device {

// `compiler`: an object of class Operators.
std::shared_ptr<operator_compiler> compile_in_python(pybind11::object compiler);

}  // namespace fpga_device
