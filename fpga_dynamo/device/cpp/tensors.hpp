// Tensors of a card: new ones, and the view of their memory that the CPU's kernels work on.
#pragma once
#include <ATen/core/Tensor.h>

#include "device.hpp"

namespace fpga_device {

// A tensor of the CPU over the memory of a card's tensor, with its version counter; it keeps that memory. Other tensors
// are returned as they are. A resize gives the view memory of its own, so that who lends it has to compare addresses.
at::Tensor host_view(const at::Tensor& tensor);

// A tensor of the card with the values, sizes and strides of a tensor of the CPU.
at::Tensor to_card(const at::Tensor& tensor, c10::Device device);

// Makes the memory larger if need be; what is there stays.
void resize_memory(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides);

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype, c10::Device device);

}  // namespace fpga_device
