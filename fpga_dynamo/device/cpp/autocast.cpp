// torch.autocast("fpga"): the lists of operators that PyTorch has for accelerators.
#include <ATen/autocast_mode.h>
#include <torch/library.h>

namespace fpga_device::autocast {

using namespace at;  // PyTorch's lists name its types without it

TORCH_LIBRARY_IMPL(_, AutocastPrivateUse1, m) { m.fallback(torch::CppFunction::makeFallthrough()); }

TORCH_LIBRARY_IMPL(aten, AutocastPrivateUse1, m) {
#define FPGA_LOWER(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, lower_precision_fp)
#define FPGA_FP32(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32)
#define FPGA_FP32_UNLESS_GIVEN(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, fp32_set_opt_dtype)
#define FPGA_WIDEST(...) KERNEL_PRIVATEUSEONE(__VA_ARGS__, promote)
    AT_FORALL_LOWER_PRECISION_FP(FPGA_LOWER)
    AT_FORALL_FP32(FPGA_FP32)
    AT_FORALL_FP32_SET_OPT_DTYPE(FPGA_FP32_UNLESS_GIVEN)
    AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE(KERNEL_DIFFERENT_REDISPATCH_SIGNATURE_PRIVATEUSEONE)
    AT_FORALL_PROMOTE(FPGA_WIDEST)
}

}  // namespace fpga_device::autocast
