#include <nanobind/ndarray.h>

#include <cstring>

#include "bindings.hpp"
#include "buffer_view.hpp"
#include "checked.hpp"
#include "emulation.hpp"
#include "pyxrt_types.hpp"

using flags = xrt::bo::flags;

// Counts the buffer for device.memory(); sub-buffers share it.
struct buffer::share {
    std::shared_ptr<card> owner;
    uint32_t group;
    uint64_t bytes;

    share(std::shared_ptr<card> card, uint32_t bank, uint64_t size) : owner(std::move(card)), group(bank), bytes(size) {
        std::lock_guard lock(owner->mutex);
        bank_use& use = owner->banks[group];
        use.bytes += bytes;
        ++use.buffers;
    }
    ~share() {
        std::lock_guard lock(owner->mutex);
        bank_use& use = owner->banks[group];
        use.bytes -= bytes;
        --use.buffers;
    }
    share(const share&) = delete;
    share& operator=(const share&) = delete;
};

void buffer::check(const char* what, uint64_t count, uint64_t offset) const {
    if (offset > bytes || count > bytes - offset)
        throw device_error(std::string(what) + " of " + std::to_string(count) + " bytes at offset " +
                           std::to_string(offset) + " lies outside a buffer of " + std::to_string(bytes) + " bytes");
}

uint8_t* buffer::map() const {
    if (!host) throw device_error("a device_only buffer cannot be seen by the host; allocate it with flags normal");
    return host;
}

void buffer::sync(xclBOSyncDirection way, uint64_t count, uint64_t offset) const {
    check("a sync", count, offset);
    map();
    translated([] { return "a sync"; },
               [&] {
                   xrt::bo same = object.get();  // which has no const sync
                   same.sync(way, count, offset);
                   std::lock_guard lock(owner->mutex);
                   (way == XCL_BO_SYNC_BO_TO_DEVICE ? owner->to_device : owner->from_device) += count;
               });
}

void buffer::write(uint64_t address, uint64_t count, uint64_t offset) const {
    check("a write", count, offset);
    std::memcpy(map() + offset, reinterpret_cast<const void*>(address), count);
}

void buffer::read(uint64_t address, uint64_t count, uint64_t offset) const {
    check("a read", count, offset);
    std::memcpy(reinterpret_cast<void*>(address), map() + offset, count);
}

namespace {

using release_gil = nb::call_guard<without_gil>;

buffer allocate(const device& owner, uint64_t bytes, flags kind, uint32_t group) {
    if (bytes == 0) throw device_error("a buffer must have at least one byte");
    const auto what = [&] {
        return "a buffer of " + std::to_string(bytes) + " bytes in memory group " + std::to_string(group);
    };
    return checked(what, [&] {
        buffer result;
        result.owner = owner.opened;
        result.bytes = bytes;
        const close_descriptor of_file;
        result.object = xrt::bo(owner.opened->handle(), bytes, kind, group);
        if (kind != flags::device_only) result.host = result.object.get().map<uint8_t*>();
        result.memory = std::make_shared<buffer::share>(owner.opened, group, bytes);
        return result;
    });
}

buffer part(const buffer& parent, uint64_t bytes, uint64_t offset) {
    parent.check("a sub-buffer", bytes, offset);
    return checked([] { return "a sub-buffer"; },
                   [&] {
                       buffer result = parent;
                       result.bytes = bytes;
                       result.object = xrt::bo(parent.object.get(), bytes, offset);
                       if (parent.host) result.host = parent.host + offset;
                       return result;
                   });
}

nb::ndarray<nb::numpy, int8_t, nb::ndim<1>> read_bytes(const buffer& self, uint64_t count, uint64_t skip) {
    self.check("a read", count, skip);  // before memory is allocated for it
    self.map();
    auto* data = new int8_t[count];
    nb::capsule owner(data, [](void* memory) noexcept { delete[] static_cast<int8_t*>(memory); });
    const without_gil release;
    self.read(reinterpret_cast<uint64_t>(data), count, skip);
    return nb::ndarray<nb::numpy, int8_t, nb::ndim<1>>(data, {count}, owner);
}

int get_buffer(PyObject* object, Py_buffer* target, int wanted) noexcept {
    try {
        const auto& self = nb::cast<const buffer&>(nb::handle(object));
        return PyBuffer_FillInfo(target, object, self.map(), static_cast<Py_ssize_t>(self.bytes), 0, wanted);
    } catch (const std::exception& reason) {
        PyErr_SetString(PyExc_BufferError, reason.what());
        target->obj = nullptr;
        return -1;
    }
}

PyType_Slot buffer_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_buffer(nb::module_& module) {
    nb::class_<buffer> bo(module, "bo", nb::type_slots(buffer_slots));
    bind_flags<flags>(bo);
    bo.def(
          "__init__",
          [](buffer* self, const device& owner, uint64_t size, flags kind, uint32_t group) {
              new (self) buffer(allocate(owner, size, kind, group));
          },
          nb::arg("device"), nb::arg("size"), nb::arg("flags"), nb::arg("group"))
        .def(
            "__init__",
            [](buffer* self, const buffer& parent, uint64_t size, uint64_t offset) {
                new (self) buffer(part(parent, size, offset));
            },
            nb::arg("parent"), nb::arg("size"), nb::arg("offset"))
        .def("size", [](const buffer& self) { return self.bytes; })
        .def("address",
             [](const buffer& self) {
                 return checked([] { return "the address of a buffer"; }, [&] { return self.object.get().address(); });
             })
        .def("map",
             [](nb::handle self) {
                 nb::cast<const buffer&>(self).map();  // throws the clear error if the host cannot see it
                 return nb::steal(PyMemoryView_FromObject(self.ptr()));
             })
        .def(
            "write",
            [](const buffer& self, nb::handle data, uint64_t seek) {
                const buffer_view source(data);
                const without_gil release;
                self.write(reinterpret_cast<uint64_t>(source.data()), source.bytes(), seek);
            },
            nb::arg("data"), nb::arg("seek") = 0)
        .def("read", &read_bytes, nb::arg("size"), nb::arg("skip") = 0)
        .def("write_ptr", &buffer::write, nb::arg("address"), nb::arg("nbytes"), nb::arg("offset") = 0, release_gil())
        .def("read_ptr", &buffer::read, nb::arg("address"), nb::arg("nbytes"), nb::arg("offset") = 0, release_gil())
        .def(
            "sync", [](const buffer& self, xclBOSyncDirection way) { self.sync(way, self.bytes, 0); },
            nb::arg("direction"), release_gil())
        .def("sync", &buffer::sync, nb::arg("direction"), nb::arg("size"), nb::arg("offset"), release_gil())
        .def(
            "copy",
            [](buffer& self, const buffer& source, uint64_t count, uint64_t source_offset, uint64_t offset) {
                if (count == 0 && source_offset <= source.bytes) count = source.bytes - source_offset;
                source.check("a copy", count, source_offset);
                self.check("a copy", count, offset);
                checked([] { return "a copy on the card"; },
                        [&] { self.object.get().copy(source.object.get(), count, source_offset, offset); });
            },
            nb::arg("source"), nb::arg("size") = 0, nb::arg("source_offset") = 0, nb::arg("offset") = 0);
}
