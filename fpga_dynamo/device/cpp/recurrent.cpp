// Cells of recurrent layers, which PyTorch fuses on every device but the CPU: made of operators that the device has. They
// stand above autograd, which differentiates the operators.
#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <tuple>

namespace {

at::Tensor with_bias(const at::Tensor& gates, const std::optional<at::Tensor>& bias) {
    return bias && bias->defined() ? gates + *bias : gates;
}

// Next hidden and cell state, and the gates. `input_gates`, `hidden_gates`: (batch, 4 * hidden).
std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                                         const at::Tensor& cell,
                                                         const std::optional<at::Tensor>& input_bias,
                                                         const std::optional<at::Tensor>& hidden_bias) {
    const at::Tensor gates = with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias);
    const auto parts = gates.chunk(4, 1);
    const at::Tensor next = parts[1].sigmoid() * cell + parts[0].sigmoid() * parts[2].tanh();
    return {parts[3].sigmoid() * next.tanh(), next, gates};
}

// Next hidden state, and the gates. `input_gates`, `hidden_gates`: (batch, 3 * hidden).
std::tuple<at::Tensor, at::Tensor> gru_cell(const at::Tensor& input_gates, const at::Tensor& hidden_gates,
                                            const at::Tensor& hidden, const std::optional<at::Tensor>& input_bias,
                                            const std::optional<at::Tensor>& hidden_bias) {
    const at::Tensor of_input = with_bias(input_gates, input_bias), of_hidden = with_bias(hidden_gates, hidden_bias);
    const auto i = of_input.chunk(3, 1), h = of_hidden.chunk(3, 1);
    const at::Tensor reset = (i[0] + h[0]).sigmoid(), update = (i[1] + h[1]).sigmoid();
    const at::Tensor fresh = (i[2] + reset * h[2]).tanh();
    return {fresh + update * (hidden - fresh), of_input};
}

}  // namespace

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    library.impl("_thnn_fused_lstm_cell", lstm_cell);
    library.impl("_thnn_fused_gru_cell", gru_cell);
}

TORCH_LIBRARY_IMPL(aten, AutogradPrivateUse1, library) {
    library.impl("_thnn_fused_lstm_cell", lstm_cell);
    library.impl("_thnn_fused_gru_cell", gru_cell);
}
