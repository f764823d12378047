#include "shared_object.hpp"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>

#include "error.hpp"

namespace card_model {

namespace {

// The loader takes a path that it has seen before for the same file, and descriptors are used again. So the number of
// the load is spelt into the path, in components that lead nowhere.
std::string unique_path(int file) {
    static std::atomic<uint32_t> loads{0};
    std::string path = "/proc/self/fd/";
    for (uint32_t number = ++loads; number; number >>= 1) path += number & 1 ? ".//" : "./";
    return path + std::to_string(file);
}

}  // namespace

shared_object::shared_object(const std::string& image) {
    const int file = memfd_create("xclbin-kernels", MFD_CLOEXEC);
    if (file < 0) throw error(system_reason("memfd_create"));
    for (size_t written = 0; written < image.size();) {
        const ssize_t count = write(file, image.data() + written, image.size() - written);
        if (count <= 0) {
            const std::string reason = system_reason("write");
            close(file);
            throw error(reason);
        }
        written += static_cast<size_t>(count);
    }
    // Two loads of the same bytes are two files to the loader, so cards do not share a kernel's static variables.
    handle_ = dlopen(unique_path(file).c_str(), RTLD_NOW | RTLD_LOCAL);
    const char* reason = handle_ ? nullptr : dlerror();
    close(file);
    if (!handle_) throw error(reason ? reason : "dlopen");
}

shared_object::~shared_object() { dlclose(handle_); }

void* shared_object::symbol(const std::string& name) const { return dlsym(handle_, name.c_str()); }

}  // namespace card_model
