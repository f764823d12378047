// What the card has no kernel for runs by the CPU's kernel, on views of the card's memory: nothing is copied in. New
// results are copied into card memory; a result that shares memory with an argument shares the card's.
#include "fallback.hpp"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/stack.h>
#include <ATen/ops/tensor.h>
#include <torch/library.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "generator.hpp"
#include "operators.hpp"
#include "tensors.hpp"
#include "traffic.hpp"

namespace fpga_device {

namespace {

std::atomic<bool> counting{false};
std::mutex counts_mutex;
std::map<std::string, int64_t> counts;

// A tensor of a card, and the CPU's view that the kernel gets in its place.
struct loan {
    at::Tensor given, lent;
    bool written;
};

// Arguments that PyTorch wants on the CPU whatever the device of the others.
bool belongs_to_cpu(const std::string& argument) { return argument == "batch_sizes" || argument == "lengths"; }

class call {
public:
    call(const c10::OperatorHandle& op, torch::jit::Stack* stack)
        : op_(op), schema_(op.schema()), stack_(*stack), begin_(stack->size() - schema_.arguments().size()) {}

    void run() {
        check_process();
        for (size_t i = 0; i < schema_.arguments().size(); ++i) lend_argument(i);
        if (!device_) device_ = resolved(std::nullopt);
        if (generator_) {
            stack_[*generator_] = host_generator(default_generator(device_->index()));
            run_on_host();
        } else if (!given_generator_ && op_.hasTag(at::Tag::nondeterministic_seeded)) {
            run_with_generator_of(device_->index());
        } else {
            run_on_host();
        }
        for (const loan& each : loans_) bring_back(each);
        const size_t results = schema_.returns().size();
        for (size_t i = stack_.size() - results; i < stack_.size(); ++i) return_to_card(stack_[i]);
    }

private:
    // The device of all: a tensor of the CPU may be a number (0-D) or an index only.
    void meet(const at::Tensor& tensor, const c10::Argument& argument, bool may_be_cpu) {
        const c10::Device device = tensor.device();
        if (device.type() == TYPE && !device_) device_ = device;
        if (device.type() == TYPE ? *device_ != device : !may_be_cpu && tensor.dim() > 0) {
            const c10::Device other = device.type() == TYPE ? *device_ : expected();
            TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, ", other,
                        " and ", device, "! (argument ", argument.name(), " of ", op_.operator_name(), ")");
        }
    }

    // The first card's device among the arguments, for an error about one that lies elsewhere.
    c10::Device expected() const {
        for (size_t i = begin_; i < stack_.size(); ++i)
            if (stack_[i].isTensor() && stack_[i].toTensor().defined() && stack_[i].toTensor().device().type() == TYPE)
                return stack_[i].toTensor().device();
        return device_.value_or(c10::Device(TYPE, current_device()));
    }

    at::Tensor lend(const at::Tensor& tensor, const c10::Argument& argument, bool may_be_cpu) {
        if (!tensor.defined()) return tensor;
        meet(tensor, argument, may_be_cpu || belongs_to_cpu(argument.name()));
        if (tensor.device().type() != TYPE) return tensor;
        const c10::AliasInfo* alias = argument.alias_info();
        loans_.push_back({tensor, host_view(tensor), alias && alias->isWrite()});
        return loans_.back().lent;
    }

    void lend_argument(size_t index) {
        const c10::Argument& argument = schema_.arguments()[index];
        c10::IValue& value = stack_[begin_ + index];
        if (value.isTensor()) {
            value = lend(value.toTensor(), argument, false);
        } else if (value.isTensorList()) {
            std::vector<at::Tensor> lent;
            for (const at::Tensor& tensor : value.toTensorVector()) lent.push_back(lend(tensor, argument, false));
            value = c10::IValue(std::move(lent));
        } else if (value.isOptionalTensorList()) {  // of indices
            c10::List<std::optional<at::Tensor>> lent;
            for (const std::optional<at::Tensor> tensor : value.toOptionalTensorList())
                lent.push_back(tensor ? std::optional(lend(*tensor, argument, true)) : std::nullopt);
            value = std::move(lent);
        } else if (value.isDevice()) {
            if (value.toDevice().type() != TYPE) return;
            device_ = resolved(value.toDevice());
            value = c10::Device(c10::kCPU);
        } else if (value.isGenerator()) {
            given_generator_ = true;
            value = host_generator(value.toGenerator());
        } else if (is_generator(argument)) {  // none was given: that of the card, not the CPU's
            generator_ = begin_ + index;
        }
    }

    static bool is_generator(const c10::Argument& argument) {
        const auto optional = argument.type()->cast<c10::OptionalType>();
        return optional && optional->getElementType()->kind() == c10::TypeKind::GeneratorType;
    }

    void run_on_host() { op_.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack_); }

    // An operator without such an argument draws from the CPU's default generator, which has the state of the card's
    // generator for the time of the call.
    void run_with_generator_of(c10::DeviceIndex index) {
        static std::mutex one_at_a_time;
        const std::lock_guard lock(one_at_a_time);
        at::Generator cpu = at::globalContext().defaultGenerator(c10::Device(c10::kCPU));
        at::Generator card = host_generator(default_generator(index));
        struct exchange {
            at::Generator &cpu, &card;
            at::Tensor before = cpu.get_state();
            exchange(at::Generator& of_cpu, at::Generator& of_card) : cpu(of_cpu), card(of_card) {
                cpu.set_state(card.get_state());
            }
            ~exchange() {
                card.set_state(cpu.get_state());
                cpu.set_state(before);
            }
        };
        const exchange swapped(cpu, card);
        run_on_host();
    }

    // What a kernel has resized lies in other memory than it was lent.
    void bring_back(const loan& each) {
        if (!each.written) return;
        const bool moved = each.lent.storage().data() != each.given.storage().data();
        if (!moved && each.lent.sizes() == each.given.sizes() && each.lent.strides() == each.given.strides()) return;
        resize_memory(each.given, each.lent.sizes(), each.lent.strides());
        if (!moved) return;
        copied().of_results += static_cast<int64_t>(each.lent.nbytes());
        host_view(each.given).copy_(each.lent);
    }

    at::Tensor returned(const at::Tensor& tensor) const {
        if (!tensor.defined() || tensor.device().type() == TYPE) return tensor;
        for (const loan& each : loans_)
            if (each.lent.is_same(tensor)) return each.given;
        for (const loan& each : loans_)
            if (tensor.has_storage() && each.lent.storage().is_alias_of(tensor.storage()))
                return view_on_card(each.given, tensor);
        return to_card(tensor, *device_);
    }

    // A view of an argument: of the same memory on the card, as the result of the kernel lies in it.
    static at::Tensor view_on_card(const at::Tensor& base, const at::Tensor& result) {
        at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
            c10::Storage(base.storage()), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), result.dtype());
        view.unsafeGetTensorImpl()->set_sizes_and_strides(result.sizes(), result.strides(), result.storage_offset());
        if (result.is_conj()) view._set_conj(true);
        if (result.is_neg()) view._set_neg(true);
        return view;
    }

    void return_to_card(c10::IValue& value) const {
        if (value.isTensor()) {
            value = returned(value.toTensor());
        } else if (value.isTensorList()) {
            std::vector<at::Tensor> all;
            for (const at::Tensor& tensor : value.toTensorVector()) all.push_back(returned(tensor));
            value = c10::IValue(std::move(all));
        }
    }

    const c10::OperatorHandle& op_;
    const c10::FunctionSchema& schema_;
    torch::jit::Stack& stack_;
    const size_t begin_;
    std::optional<c10::Device> device_;
    std::vector<loan> loans_;
    std::optional<size_t> generator_;  // where on the stack none was given
    bool given_generator_ = false;
};

void fallback(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    check_process();
    host_timing timing;
    if (run_on_card(op, *stack, timing)) return;
    if (counting.load(std::memory_order_relaxed)) {
        const std::lock_guard lock(counts_mutex);
        ++counts[c10::toString(op.operator_name())];
    }
    call(op, stack).run();
}

}  // namespace

std::map<std::string, int64_t> take_fallbacks() {
    const std::lock_guard lock(counts_mutex);
    return std::exchange(counts, {});
}

void count_fallbacks(bool wanted) { counting = wanted; }

}  // namespace fpga_device

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
    library.fallback(torch::CppFunction::makeFromBoxedFunction<&fpga_device::fallback>());
}

// PyTorch has a kernel of other operators for these, and another for the CPU, whose values they are to have.
TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    for (const char* name : {"native_layer_norm", "native_group_norm", "addr", "addr.out", "all.dims", "all.dims_out",
                             "any.dims", "any.dims_out", "_stack", "_stack.out", "linalg__powsum"})
        library.impl(name, torch::CppFunction::makeFromBoxedFunction<&fpga_device::fallback>());
}
