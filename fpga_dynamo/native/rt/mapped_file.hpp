// A file of a model, mapped for reading.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace fd {

class mapped_file {
public:
    // Throws model_error, with the reason, if there is no such file or it cannot be read.
    explicit mapped_file(const std::string& path);
    ~mapped_file();
    mapped_file(const mapped_file&) = delete;
    mapped_file& operator=(const mapped_file&) = delete;

    const std::string& path() const { return path_; }
    const uint8_t* data() const { return data_; }
    uint64_t bytes() const { return bytes_; }
    std::string_view text() const { return {reinterpret_cast<const char*>(data_), static_cast<size_t>(bytes_)}; }
    // The pages are not needed for now: memory that the host may use otherwise.
    void forget() const;

private:
    std::string path_;
    uint8_t* data_ = nullptr;
    uint64_t bytes_ = 0;
};

}  // namespace fd
