// Convolutions, which PyTorch leaves to the device: without these operators it would raise.
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <torch/library.h>

#include <array>
#include <tuple>
#include <vector>

#include "operators.hpp"
#include "tensors.hpp"

namespace fpga_device {

namespace {

using c10::IntArrayRef;

void check_devices(const at::Tensor& input, const at::Tensor& other, const char* name) {
    TORCH_CHECK(!other.defined() || input.device() == other.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", input.device(),
                " and ", other.device(), "! (argument ", name, " of a convolution)");
}

at::Tensor forward(const at::Tensor& input, const at::Tensor& weight, const std::optional<at::Tensor>& bias,
                   IntArrayRef stride, IntArrayRef padding, IntArrayRef dilation, bool transposed,
                   IntArrayRef output_padding, int64_t groups) {
    check_devices(input, weight, "weight");
    if (bias) check_devices(input, *bias, "bias");
    const auto host_bias = bias ? std::optional(host_view(*bias)) : std::nullopt;
    return to_card(at::convolution(host_view(input), host_view(weight), host_bias, stride, padding, dilation,
                                   transposed, output_padding, groups),
                   input.device());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> backward(const at::Tensor& gradient, const at::Tensor& input,
                                                        const at::Tensor& weight, IntArrayRef stride,
                                                        IntArrayRef padding, IntArrayRef dilation, bool transposed,
                                                        IntArrayRef output_padding, int64_t groups,
                                                        std::array<bool, 3> wanted) {
    check_devices(input, gradient, "grad_output");
    check_devices(input, weight, "weight");
    const std::vector<int64_t> bias{transposed ? weight.size(1) * groups : weight.size(0)};
    const auto [of_input, of_weight, of_bias] =
        at::convolution_backward(host_view(gradient), host_view(input), host_view(weight), bias, stride, padding,
                                 dilation, transposed, output_padding, groups, wanted);
    const auto moved = [&](const at::Tensor& made) { return made.defined() ? to_card(made, input.device()) : made; };
    return {moved(of_input), moved(of_weight), moved(of_bias)};
}

// On the card if there is a program for such a call, else on the host by `kernel`.
void run(const c10::KernelFunction& kernel, const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    check_process();
    host_timing timing;
    if (!run_on_card(op, *stack, timing))
        kernel.callBoxed(op, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), stack);
}

void run_forward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    static const auto kernel = c10::KernelFunction::makeFromUnboxedRuntimeFunction(&forward);
    run(kernel, op, stack);
}

void run_backward(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    static const auto kernel = c10::KernelFunction::makeFromUnboxedRuntimeFunction(&backward);
    run(kernel, op, stack);
}

}  // namespace

}  // namespace fpga_device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    using torch::CppFunction;
    library.impl("convolution_overrideable", CppFunction::makeFromBoxedFunction<&fpga_device::run_forward>());
    library.impl("convolution_backward_overrideable", CppFunction::makeFromBoxedFunction<&fpga_device::run_backward>());
}
