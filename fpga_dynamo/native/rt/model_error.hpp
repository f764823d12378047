// What the run-time library throws inside; fd_model.cpp turns it into a status and a sentence.
#pragma once
#include <stdexcept>
#include <string>

#include "fd_model.h"

namespace fd {

class model_error : public std::runtime_error {
public:
    model_error(fd_status status, const std::string& sentence) : std::runtime_error(sentence), status_(status) {}
    fd_status status() const { return status_; }

private:
    fd_status status_;
};

// The directory is no model, or not one that this library runs.
inline model_error invalid_model(const std::string& sentence) { return {FD_INVALID_MODEL, sentence}; }
inline model_error invalid_argument(const std::string& sentence) { return {FD_INVALID_ARGUMENT, sentence}; }

}  // namespace fd
