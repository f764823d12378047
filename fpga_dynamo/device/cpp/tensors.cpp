#include "tensors.hpp"

#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/DeviceGuard.h>

#include "allocator.hpp"
#include "traffic.hpp"

namespace fpga_device {

namespace {

constexpr c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

// Keeps a storage of a card alive for as long as the CPU's view of it.
void let_go(void* storage) { delete static_cast<c10::Storage*>(storage); }

c10::Storage host_storage(const c10::Storage& storage) {
    c10::DataPtr memory(const_cast<void*>(storage.data()), new c10::Storage(storage), &let_go, c10::Device(c10::kCPU));
    return c10::Storage(c10::Storage::use_byte_size_t{}, storage.nbytes(), std::move(memory), c10::GetCPUAllocator(),
                        /*resizable=*/true);
}

}  // namespace

at::Tensor empty_strided(c10::IntArrayRef sizes, c10::IntArrayRef strides, at::ScalarType dtype, c10::Device device) {
    const c10::DeviceGuard guard(resolved(device));
    return at::detail::empty_strided_generic(sizes, strides, &allocator(), KEYS, dtype);
}

at::Tensor host_view(const at::Tensor& tensor) {
    if (!tensor.defined() || tensor.device().type() != TYPE) return tensor;
    at::Tensor view = at::detail::make_tensor<c10::TensorImpl>(
        host_storage(tensor.storage()), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
    c10::TensorImpl* impl = view.unsafeGetTensorImpl();
    impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    if (!tensor.is_inference() && !view.is_inference())
        impl->set_version_counter(tensor.unsafeGetTensorImpl()->version_counter());
    if (tensor.is_conj()) view._set_conj(true);
    if (tensor.is_neg()) view._set_neg(true);
    if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
    return view;
}

at::Tensor to_card(const at::Tensor& tensor, c10::Device device) {
    TORCH_CHECK(tensor.layout() == at::kStrided && !tensor.is_quantized(),
                "device 'fpga' supports strided tensors, not ", tensor.layout(),
                tensor.is_quantized() ? " with a quantizer" : "", "; use .cpu() before the operator");
    at::Tensor made = empty_strided(tensor.sizes(), tensor.strides(), tensor.scalar_type(), device);
    copied().of_results += static_cast<int64_t>(tensor.nbytes());
    host_view(made).copy_(tensor);
    return made;
}

void resize_memory(const at::Tensor& tensor, c10::IntArrayRef sizes, c10::IntArrayRef strides) {
    c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
    const size_t needed = at::detail::computeStorageNbytes(sizes, strides, tensor.itemsize(),
                                                           static_cast<size_t>(tensor.storage_offset()));
    if (needed > tensor.storage().nbytes()) {
        TORCH_CHECK(tensor.storage().resizable(), "a tensor on ", tensor.device(),
                    " cannot grow, because its storage is not resizable; make a new tensor of the wanted size");
        at::detail::getPrivateUse1Hooks().resizePrivateUse1Bytes(tensor.storage(), needed);
    }
    impl->set_sizes_and_strides(sizes, strides);
}

}  // namespace fpga_device
