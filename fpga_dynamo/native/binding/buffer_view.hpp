// bytes, bytearray, memoryview, numpy arrays: whatever lies in one piece.
#pragma once
#include <nanobind/nanobind.h>

#include <cstdint>

class buffer_view {
public:
    explicit buffer_view(nanobind::handle object) {
        if (PyObject_GetBuffer(object.ptr(), &buffer_, PyBUF_C_CONTIGUOUS) != 0) nanobind::raise_python_error();
    }
    ~buffer_view() { PyBuffer_Release(&buffer_); }
    buffer_view(const buffer_view&) = delete;
    buffer_view& operator=(const buffer_view&) = delete;
    const void* data() const { return buffer_.buf; }
    uint64_t bytes() const { return static_cast<uint64_t>(buffer_.len); }

private:
    Py_buffer buffer_;
};
