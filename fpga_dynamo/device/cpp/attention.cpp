// Which of PyTorch's kernels computes attention: the one that the CPU would have chosen.
#include <ATen/native/DispatchStub.h>
#include <ATen/native/transformers/attention.h>
#include <ATen/ops/_fused_sdp_choice.h>

#include "tensors.hpp"

namespace fpga_device {

namespace {

int64_t choice(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
               const std::optional<at::Tensor>& mask, double dropout, bool causal, std::optional<double> scale,
               bool grouped) {
    // Whether gradients are wanted decides, too, and views have none.
    const auto host = [](const at::Tensor& tensor) {
        at::Tensor view = host_view(tensor);
        if (tensor.requires_grad() && !view.is_inference()) view.set_requires_grad(true);
        return view;
    };
    const auto host_mask = mask ? std::optional(host(*mask)) : std::nullopt;
    return at::_fused_sdp_choice(host(query), host(key), host(value), host_mask, dropout, causal, scale, grouped);
}

}  // namespace

}  // namespace fpga_device

namespace at::native {
REGISTER_PRIVATEUSE1_DISPATCH(_fused_sdp_choice_stub, &fpga_device::choice)
}  // namespace at::native
