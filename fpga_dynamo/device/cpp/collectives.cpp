// Collective operations of torch.distributed: those of the CPU (gloo) on the memory of the cards.
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <c10/util/Exception.h>
#include <torch/library.h>

#include <vector>

#include "tensors.hpp"

namespace fpga_device {

namespace {

struct lent_tensor {
    at::Tensor given, view;
};

class exchange_of_tensors {
public:
    c10::IValue lend(const c10::IValue& value) {
        if (value.isTensor()) return lend(value.toTensor());
        if (!value.isList()) return value;
        return in_list(value, [this](const c10::IValue& each) { return lend(each); });
    }

    c10::IValue give_back(const c10::IValue& value) const {
        if (value.isTensor()) return give_back(value.toTensor());
        if (!value.isList()) return value;
        return in_list(value, [this](const c10::IValue& each) { return give_back(each); });
    }

private:
    template <typename Function>
    static c10::IValue in_list(const c10::IValue& value, Function change) {
        const auto list = value.toList();
        c10::impl::GenericList made(list.elementType());
        for (const c10::IValue& each : value.toListRef()) made.push_back(change(each));
        return made;
    }

    at::Tensor lend(const at::Tensor& tensor) {
        if (!tensor.defined() || tensor.device().type() != TYPE) return tensor;
        lent_.push_back({tensor, host_view(tensor)});
        return lent_.back().view;
    }

    at::Tensor give_back(const at::Tensor& tensor) const {
        for (const lent_tensor& each : lent_)
            if (each.view.is_same(tensor)) return each.given;
        return tensor;
    }

    std::vector<lent_tensor> lent_;
};

void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    check_process();
    exchange_of_tensors exchange;
    const size_t begin = stack->size() - op.schema().arguments().size();
    for (size_t i = begin; i < stack->size(); ++i) (*stack)[i] = exchange.lend((*stack)[i]);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
    for (size_t i = begin; i < stack->size(); ++i) (*stack)[i] = exchange.give_back((*stack)[i]);
}

}  // namespace

// PyTorch warns of a kernel that takes the place of another: its own looks for a backend of the device.
struct no_warnings final : c10::WarningHandler {
    void process(const c10::Warning&) override {}
};

}  // namespace fpga_device

TORCH_LIBRARY_IMPL(c10d, PrivateUse1, library) {
    fpga_device::no_warnings silent;
    const c10::WarningUtils::WarningHandlerGuard guard(&silent);
    for (const char* name : {"allreduce_", "allreduce_coalesced_", "broadcast_", "allgather_", "_allgather_base_",
                             "allgather_coalesced_", "allgather_into_tensor_coalesced_", "reduce_", "gather_",
                             "scatter_", "reduce_scatter_", "_reduce_scatter_base_", "reduce_scatter_tensor_coalesced_",
                             "alltoall_", "alltoall_base_", "barrier", "send", "recv_", "recv_any_source_"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fpga_device::run_collective>());
}
