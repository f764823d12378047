// A Python int or float as the bytes of a scalar argument of 1 to 8 bytes; a structure of any size as bytes.
#pragma once
#include <nanobind/nanobind.h>

#include <cstring>
#include <string>

#include "error.hpp"

class scalar {
public:
    // An int has to fit, signed or unsigned; a float becomes an IEEE number of the argument's size.
    scalar(nanobind::handle value, uint64_t bytes, const std::string& title) {
        if (PyBytes_Check(value.ptr())) {
            const auto given = static_cast<uint64_t>(PyBytes_GET_SIZE(value.ptr()));
            if (given != bytes || bytes > sizeof image_)
                throw card_model::error(title + " has " + std::to_string(bytes) + " bytes, not " +
                                        std::to_string(given));
            std::memcpy(image_, PyBytes_AS_STRING(value.ptr()), bytes);
        } else if (PyFloat_Check(value.ptr()) && (bytes == 4 || bytes == 8)) {
            const double wide = PyFloat_AsDouble(value.ptr());
            const float narrow = static_cast<float>(wide);
            std::memcpy(image_, bytes == 8 ? static_cast<const void*>(&wide) : &narrow, bytes);
        } else if (PyIndex_Check(value.ptr()) && bytes <= 8) {
            const nanobind::object number = nanobind::steal(PyNumber_Index(value.ptr()));
            if (!number.is_valid()) nanobind::raise_python_error();
            const uint64_t bits = bits_of(number, bytes, title);
            std::memcpy(image_, &bits, bytes);
        } else {
            const auto type = nanobind::cast<std::string>(nanobind::handle(value.type()).attr("__name__"));
            throw nanobind::type_error(
                (title + " cannot be a " + type + ": expected a bo, an int, a float or bytes").c_str());
        }
    }
    const void* data() const { return image_; }

private:
    static uint64_t bits_of(nanobind::handle number, uint64_t bytes, const std::string& title) {
        int overflow = 0;
        const long long low = PyLong_AsLongLongAndOverflow(number.ptr(), &overflow);
        uint64_t bits = static_cast<uint64_t>(low);
        if (overflow > 0) bits = PyLong_AsUnsignedLongLong(number.ptr());
        const bool too_large = PyErr_Occurred() != nullptr;
        PyErr_Clear();
        const bool narrow = bytes < 8;
        const long long limit = narrow ? 1ll << (8 * bytes) : 0;
        if (too_large || overflow < 0 || (narrow && (overflow || low >= limit || low < -(limit / 2))))
            throw card_model::error(title + " does not fit into " + std::to_string(bytes) + " bytes");
        return bits;
    }

    uint8_t image_[64] = {};
};
