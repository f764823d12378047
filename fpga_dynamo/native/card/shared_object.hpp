// Kernel code: a shared object that never touches the file system, loaded apart from every other.
#pragma once
#include <string>

namespace card_model {

class shared_object {
public:
    // Throws error with the loader's reason.
    explicit shared_object(const std::string& image);
    ~shared_object();
    shared_object(const shared_object&) = delete;
    shared_object& operator=(const shared_object&) = delete;

    void* symbol(const std::string& name) const;  // null if missing

private:
    void* handle_ = nullptr;
};

}  // namespace card_model
