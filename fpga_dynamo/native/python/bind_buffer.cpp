#include <nanobind/ndarray.h>

#include "bindings.hpp"
#include "buffer.hpp"
#include "buffer_view.hpp"
#include "interpreter.hpp"
#include "pyxrt_types.hpp"

using card_model::buffer;
using card_model::buffer_flags;
using card_model::direction;
using release_gil = nb::call_guard<without_gil>;

namespace {

void write_bytes(const buffer& self, nb::handle data, uint64_t seek) {
    const buffer_view source(data);
    without_gil release;
    self.write(source.data(), source.bytes(), seek);
}

nb::ndarray<nb::numpy, int8_t, nb::ndim<1>> read_bytes(const buffer& self, uint64_t bytes, uint64_t skip) {
    self.check_range("a read", bytes, skip);  // before memory is allocated for it
    auto* data = new int8_t[bytes];
    nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<int8_t*>(memory); });
    {
        without_gil release;
        self.read(data, bytes, skip);
    }
    return nb::ndarray<nb::numpy, int8_t, nb::ndim<1>>(data, {bytes}, owner);
}

int get_buffer(PyObject* object, Py_buffer* target, int flags) noexcept {
    try {
        const auto& self = nb::cast<const buffer&>(nb::handle(object));
        return PyBuffer_FillInfo(target, object, self.map(), static_cast<Py_ssize_t>(self.size()), 0, flags);
    } catch (const std::exception& reason) {
        PyErr_SetString(PyExc_BufferError, reason.what());
        target->obj = nullptr;
        return -1;
    }
}

nb::object map_memory(nb::handle self) {
    nb::cast<const buffer&>(self).map();  // throws the clear error if the host cannot see it
    return nb::steal(PyMemoryView_FromObject(self.ptr()));
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_buffer(nb::module_& module) {
    nb::class_<buffer> bo(module, "bo", nb::type_slots(buffer_slots));
    bind_flags<buffer_flags>(bo);
    bo.def(
          "__init__",
          [](buffer* self, const device& owner, uint64_t size, buffer_flags flags, uint32_t group) {
              new (self) buffer(owner.card, size, flags, group);
          },
          nb::arg("device"), nb::arg("size"), nb::arg("flags"), nb::arg("group"), release_gil())
        .def(nb::init<const buffer&, uint64_t, uint64_t>(), nb::arg("parent"), nb::arg("size"), nb::arg("offset"))
        .def("size", &buffer::size)
        .def("address", &buffer::address)
        .def("map", &map_memory)
        .def("write", &write_bytes, nb::arg("data"), nb::arg("seek") = 0)
        .def("read", &read_bytes, nb::arg("size"), nb::arg("skip") = 0)
        .def(
            "write_ptr",
            [](const buffer& self, uint64_t address, uint64_t bytes, uint64_t offset) {
                self.write(reinterpret_cast<const void*>(address), bytes, offset);
            },
            nb::arg("address"), nb::arg("nbytes"), nb::arg("offset") = 0, release_gil())
        .def(
            "upload_ptr",
            [](const buffer& self, uint64_t address, uint64_t bytes, uint64_t offset) {
                self.upload(reinterpret_cast<const void*>(address), bytes, offset);
            },
            nb::arg("address"), nb::arg("nbytes"), nb::arg("offset") = 0, release_gil())
        .def("populate", &buffer::populate, release_gil())
        .def("discard", &buffer::discard, nb::arg("nbytes"), nb::arg("offset"), release_gil())
        .def(
            "read_ptr",
            [](const buffer& self, uint64_t address, uint64_t bytes, uint64_t offset) {
                self.read(reinterpret_cast<void*>(address), bytes, offset);
            },
            nb::arg("address"), nb::arg("nbytes"), nb::arg("offset") = 0, release_gil())
        .def(
            "sync", [](const buffer& self, direction way) { self.sync(way, self.size(), 0); }, nb::arg("direction"),
            release_gil())
        .def("sync", &buffer::sync, nb::arg("direction"), nb::arg("size"), nb::arg("offset"), release_gil())
        .def("copy", &buffer::copy, nb::arg("source"), nb::arg("size") = 0, nb::arg("source_offset") = 0,
             nb::arg("offset") = 0, release_gil());
}
