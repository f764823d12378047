// Operators that make, view, resize and copy tensors of a card.
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_cpu_dispatch.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/set_cpu_dispatch.h>
#include <ATen/ops/unfold_cpu_dispatch.h>
#include <ATen/ops/view_cpu_dispatch.h>
#include <c10/core/DeviceGuard.h>
#include <c10/util/DimVector.h>
#include <torch/library.h>

#include <algorithm>

#include "allocator.hpp"
#include "tensors.hpp"
#include "traffic.hpp"

namespace fpga_device {

namespace {

using c10::IntArrayRef;
using std::optional;

at::Tensor empty(IntArrayRef sizes, optional<at::ScalarType> dtype, optional<at::Layout> layout,
                 optional<c10::Device> device, optional<bool> pinned, optional<at::MemoryFormat> format) {
    TORCH_CHECK(!layout || *layout == at::kStrided, "device 'fpga' supports strided tensors, not ", *layout);
    TORCH_CHECK(!pinned || !*pinned, "only tensors of the CPU can be pinned, not those of device 'fpga'");
    const c10::DeviceGuard guard(resolved(device));
    return at::detail::empty_generic(sizes, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                     c10::dtype_or_default(dtype), format);
}

at::Tensor empty_with_strides(IntArrayRef sizes, IntArrayRef strides, optional<at::ScalarType> dtype,
                              optional<at::Layout> layout, optional<c10::Device> device, optional<bool> pinned) {
    TORCH_CHECK(!layout || *layout == at::kStrided, "device 'fpga' supports strided tensors, not ", *layout);
    TORCH_CHECK(!pinned || !*pinned, "only tensors of the CPU can be pinned, not those of device 'fpga'");
    return empty_strided(sizes, strides, c10::dtype_or_default(dtype), resolved(device));
}

void count_copy(const at::Tensor& source, const at::Tensor& target) {
    const bool leaves = source.device().type() == TYPE, arrives = target.device().type() == TYPE;
    const auto bytes = static_cast<int64_t>(source.nbytes());
    if (leaves && arrives && source.device() != target.device()) copied().between_cards += bytes;
    if (leaves && !arrives) copied().from_card += bytes;
    if (arrives && !leaves) copied().to_card += bytes;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
    check_process();
    count_copy(source, target);
    host_view(target).copy_(host_view(source));
    return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
    if (source.sizes() != target.sizes()) target.resize_(source.sizes());
    return copy_from(source, target, false);
}

at::Scalar item(const at::Tensor& tensor) {
    check_process();
    copied().from_card += static_cast<int64_t>(tensor.itemsize());
    return host_view(tensor).item();
}

at::Tensor as_strided(const at::Tensor& tensor, IntArrayRef sizes, IntArrayRef strides, optional<int64_t> offset) {
    return at::cpu::as_strided(tensor, sizes, strides, offset);
}

at::Tensor view(const at::Tensor& tensor, IntArrayRef sizes) { return at::cpu::view(tensor, sizes); }

at::Tensor reshape_alias(const at::Tensor& tensor, IntArrayRef sizes, IntArrayRef strides) {
    return at::cpu::_reshape_alias(tensor, sizes, strides);
}

at::Tensor unfold(const at::Tensor& tensor, int64_t dimension, int64_t size, int64_t step) {
    return at::cpu::unfold(tensor, dimension, size, step);
}

c10::DimVector contiguous(IntArrayRef sizes) {
    c10::DimVector strides(sizes.size());
    int64_t step = 1;
    for (size_t i = sizes.size(); i-- > 0; step *= std::max<int64_t>(sizes[i], 1)) strides[i] = step;
    return strides;
}

const at::Tensor& resize(const at::Tensor& tensor, IntArrayRef sizes, optional<at::MemoryFormat> format) {
    if (tensor.sizes() != sizes) resize_memory(tensor, sizes, contiguous(sizes));
    if (format) {
        TORCH_CHECK(*format != at::MemoryFormat::Preserve, "resize_ does not support the memory format 'preserve'");
        tensor.unsafeGetTensorImpl()->empty_tensor_restride(*format);
    }
    return tensor;  // NOLINT(bugprone-return-const-ref-from-parameter): PyTorch's signature
}

at::Tensor& set_storage_and_sizes(at::Tensor& tensor, at::Storage storage, int64_t offset, IntArrayRef sizes,
                                  IntArrayRef strides) {
    return at::cpu::set_(tensor, std::move(storage), offset, sizes, strides);
}

at::Tensor& set_storage(at::Tensor& tensor, at::Storage storage) {
    const auto elements = static_cast<int64_t>(storage.nbytes() / tensor.itemsize());
    return at::cpu::set_(tensor, std::move(storage), 0, {elements}, {});
}

at::Tensor& set_tensor(at::Tensor& tensor, const at::Tensor& source) {
    if (tensor.is_same(source)) return tensor;
    return at::cpu::set_(tensor, source.storage(), source.storage_offset(), source.sizes(), source.strides());
}

at::Tensor& set_empty(at::Tensor& tensor) {
    c10::Storage none(c10::Storage::use_byte_size_t{}, 0, allocate_on(resolved(tensor.device()).index(), 0),
                      &allocator(), true);
    return at::cpu::set_(tensor, std::move(none), 0, {0}, {});
}

void record_stream(at::Tensor&, c10::Stream) {}

// Of `tensor.data = other`: the two have to be of one device.
bool may_take_the_place(const at::Tensor& tensor, const at::Tensor& other) {
    return tensor.key_set() == other.key_set();
}

}  // namespace

}  // namespace fpga_device

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
    using namespace fpga_device;
    library.impl("empty.memory_format", empty);
    library.impl("empty_strided", empty_with_strides);
    library.impl("_copy_from", copy_from);
    library.impl("_copy_from_and_resize", copy_from_and_resize);
    library.impl("_local_scalar_dense", item);
    library.impl("as_strided", as_strided);
    library.impl("view", view);
    library.impl("_reshape_alias", reshape_alias);
    library.impl("unfold", unfold);
    library.impl("resize_", resize);
    library.impl("set_.source_Storage_storage_offset", set_storage_and_sizes);
    library.impl("set_.source_Storage", set_storage);
    library.impl("set_.source_Tensor", set_tensor);
    library.impl("set_", set_empty);
    library.impl("record_stream", record_stream);
    library.impl("_has_compatible_shallow_copy_type", may_take_the_place);
}

// The CPU's copy resolves these bits itself. Their own kernels would copy by `_copy_from` again, without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
TORCH_LIBRARY_IMPL(aten, Negative, library) { library.impl("_copy_from", torch::CppFunction::makeFallthrough()); }
