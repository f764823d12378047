#include "call_kind.hpp"

#include <cstring>

namespace fpga_device {

namespace {

enum tag : int64_t { NONE = 1, TENSOR, NUMBER, LIST, VALUE, TEXT };

class describer {
public:
    describer(call_words& words, call_tensors& tensors) : words_(words), tensors_(tensors) {}

    bool add(const c10::IValue& value) {
        if (value.isTensor()) return add(value.toTensor());
        if (value.isNone()) {
            words_.push_back(NONE);
        } else if (value.isInt()) {
            put(VALUE, 'i', value.toInt());
        } else if (value.isDouble()) {
            put(VALUE, 'd', bits(value.toDouble()));
        } else if (value.isBool()) {
            put(VALUE, 'b', value.toBool());
        } else if (value.isString()) {
            const std::string& text = value.toStringRef();
            put(TEXT, static_cast<int64_t>(text.size()), 0);
            for (const char letter : text) words_.push_back(letter);
        } else if (value.isList()) {  // of numbers, tensors or optional tensors
            const auto list = value.toListRef();
            put(LIST, static_cast<int64_t>(list.size()), 0);
            for (const c10::IValue& each : list)
                if (!add(each)) return false;
        } else {
            why = "an argument is neither a tensor nor a number";
            return false;
        }
        return true;
    }

    const char* why = nullptr;
    std::optional<c10::Device> device;

private:
    static int64_t bits(double number) {
        int64_t word = 0;
        std::memcpy(&word, &number, sizeof word);
        return word;
    }

    void put(int64_t first, int64_t second, int64_t third) { words_.insert(words_.end(), {first, second, third}); }

    bool add(const at::Tensor& tensor) {
        if (!tensor.defined()) {
            words_.push_back(NONE);
            return true;
        }
        if (is_number(tensor)) {
            const c10::Scalar number = number_of(tensor);
            put(NUMBER,
                number.isFloatingPoint() ? 'd'
                : number.isBoolean()     ? 'b'
                                         : 'i',
                number.isFloatingPoint() ? bits(number.toDouble()) : number.toLong());
            return true;
        }
        if (tensor.device().type() != TYPE || (device && *device != tensor.device())) {
            why = "a tensor is not on the card";
            return false;
        }
        if (tensor.is_conj() || tensor.is_neg()) {
            why = "a tensor is conjugated or negated only when it is read";
            return false;
        }
        device = tensor.device();
        const auto sizes = tensor.sizes(), strides = tensor.strides();
        put(TENSOR, static_cast<int64_t>(tensor.scalar_type()), static_cast<int64_t>(sizes.size()));
        words_.insert(words_.end(), sizes.begin(), sizes.end());
        words_.insert(words_.end(), strides.begin(), strides.end());
        tensors_.push_back(&tensor);
        return true;
    }

    call_words& words_;
    call_tensors& tensors_;
};

}  // namespace

bool is_number(const at::Tensor& tensor) {
    return tensor.device().is_cpu() && tensor.dim() == 0 && tensor.unsafeGetTensorImpl()->is_wrapped_number() &&
           !tensor.is_complex();
}

c10::Scalar number_of(const at::Tensor& tensor) {
    const void* where = tensor.const_data_ptr();
    switch (tensor.scalar_type()) {
        case at::kDouble: return *static_cast<const double*>(where);
        case at::kLong: return *static_cast<const int64_t*>(where);
        case at::kBool: return *static_cast<const bool*>(where);
        default: return tensor.item();
    }
}

const char* describe_call(const c10::IValue* begin, const c10::IValue* end, call_words& words, call_tensors& tensors,
                          c10::Device& device) {
    describer found(words, tensors);
    for (const c10::IValue* value = begin; value != end; ++value)
        if (!found.add(*value)) return found.why;
    if (!found.device) return "no argument is a tensor of a card";
    device = *found.device;
    words.push_back(device.index());
    return nullptr;
}

}  // namespace fpga_device
