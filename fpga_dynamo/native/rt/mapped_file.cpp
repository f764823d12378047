#include "mapped_file.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "model_error.hpp"

namespace fd {

namespace {

model_error cannot_read(const std::string& path, int reason) {
    return invalid_model("'" + path + "' cannot be read: " + std::strerror(reason));
}

}  // namespace

mapped_file::mapped_file(const std::string& path) : path_(path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) throw cannot_read(path, errno);
    struct stat about{};
    if (fstat(file, &about) != 0 || !S_ISREG(about.st_mode)) {
        const int reason = S_ISDIR(about.st_mode) ? EISDIR : errno;
        close(file);
        throw cannot_read(path, reason);
    }
    bytes_ = static_cast<uint64_t>(about.st_size);
    if (bytes_) {
        void* memory = mmap(nullptr, bytes_, PROT_READ, MAP_PRIVATE, file, 0);
        if (memory == MAP_FAILED) {
            const int reason = errno;
            close(file);
            throw cannot_read(path, reason);
        }
        data_ = static_cast<uint8_t*>(memory);
    }
    close(file);
}

mapped_file::~mapped_file() {
    if (data_) munmap(data_, bytes_);
}

void mapped_file::forget() const {
    if (data_) madvise(data_, bytes_, MADV_DONTNEED);
}

}  // namespace fd
