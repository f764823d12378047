// The C++ API of an exported model: fd_model.h with exceptions and owners.
//
//     fd::loaded_model model("resnet18");
//     std::vector<float> logits(1000);
//     model.run({fd::tensor_of(pixels, {1, 3, 224, 224})}, {fd::tensor_of(logits.data(), {1, 1000})});
#pragma once
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fd_model.h"

namespace fd {

// A function of fd_model.h failed; what() is its sentence.
class failure : public std::runtime_error {
public:
    failure(fd_status status, const char* sentence) : std::runtime_error(sentence), status_(status) {}
    fd_status status() const { return status_; }

private:
    fd_status status_;
};

inline void check(fd_status status) {
    if (status != FD_OK) throw failure(status, fd_last_error());
}

// A tensor of a call in row-major order, in the caller's memory.
struct tensor {
    fd_dtype dtype;
    std::vector<int64_t> shape;
    void* data;
};

template <typename T>
struct dtype_of_type;
template <>
struct dtype_of_type<float> {
    static constexpr fd_dtype value = FD_FLOAT32;
};
template <>
struct dtype_of_type<int64_t> {
    static constexpr fd_dtype value = FD_INT64;
};
template <>
struct dtype_of_type<int32_t> {
    static constexpr fd_dtype value = FD_INT32;
};
template <>
struct dtype_of_type<int8_t> {
    static constexpr fd_dtype value = FD_INT8;
};
template <>
struct dtype_of_type<uint8_t> {
    static constexpr fd_dtype value = FD_UINT8;
};
template <>
struct dtype_of_type<bool> {
    static constexpr fd_dtype value = FD_BOOL;
};

template <typename T>
tensor tensor_of(T* data, std::vector<int64_t> shape) {
    using element = std::remove_const_t<T>;  // inputs are only read
    return {dtype_of_type<element>::value, std::move(shape), const_cast<element*>(data)};
}

// Bytes of an element.
inline size_t element_bytes(fd_dtype dtype) {
    switch (dtype) {
        case FD_INT64:
        case FD_COMPLEX64: return 8;
        case FD_FLOAT16:
        case FD_BFLOAT16: return 2;
        case FD_INT8:
        case FD_UINT8:
        case FD_BOOL: return 1;
        default: return 4;
    }
}

// What a model accepts or returns; -1 is a size that changes from call to call.
struct port {
    std::string name;
    fd_dtype dtype;
    std::vector<int64_t> shape;
};

// All members may be called from several threads at once, and throw failure.
class loaded_model {
public:
    explicit loaded_model(const std::string& directory, const fd_options* options = nullptr) {
        fd_model* opened = nullptr;
        check(fd_model_open(directory.c_str(), options, &opened));
        model_.reset(opened);
    }

    std::vector<port> inputs() const {
        std::vector<port> all(fd_model_input_count(model_.get()));
        for (size_t i = 0; i < all.size(); ++i) all[i] = described(fd_model_input, i);
        return all;
    }
    std::vector<port> outputs() const {
        std::vector<port> all(fd_model_output_count(model_.get()));
        for (size_t i = 0; i < all.size(); ++i) all[i] = described(fd_model_output, i);
        return all;
    }
    std::vector<int64_t> output_shape(const std::vector<tensor>& inputs, size_t index) const {
        std::vector<int64_t> shape(FD_MAX_RANK);
        const auto from = tensors(inputs);
        check(fd_model_output_shape(model_.get(), from.data(), from.size(), index, shape.data()));
        fd_port about{};
        check(fd_model_output(model_.get(), index, &about));
        shape.resize(static_cast<size_t>(about.rank));
        return shape;
    }
    void run(const std::vector<tensor>& inputs, const std::vector<tensor>& outputs) const {
        const auto from = tensors(inputs), to = tensors(outputs);
        check(fd_model_run(model_.get(), from.data(), from.size(), to.data(), to.size()));
    }
    void load_weights(const std::string& file) const { check(fd_model_load_weights(model_.get(), file.c_str())); }

private:
    struct closes {
        void operator()(fd_model* model) const { fd_model_close(model); }
    };

    template <typename Function>
    port described(Function&& function, size_t index) const {
        fd_port about{};
        check(function(model_.get(), index, &about));
        return {about.name, about.dtype, {about.shape, about.shape + about.rank}};
    }
    static std::vector<fd_tensor> tensors(const std::vector<tensor>& given) {
        std::vector<fd_tensor> all;
        for (const tensor& one : given)
            all.push_back({one.dtype, static_cast<int32_t>(one.shape.size()), one.shape.data(), nullptr, one.data});
        return all;
    }

    std::unique_ptr<fd_model, closes> model_;
};

}  // namespace fd
