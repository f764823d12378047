// Files that nobody but their owner may read.
#pragma once
#include <string>

namespace card_server {

// The content of a file that only this user and root can read or change. what: for messages. Throws std::runtime_error.
std::string read_private(const std::string& path, const std::string& what);
// The token in a file, without the white space around it. Throws std::runtime_error.
std::string read_token(const std::string& path);

}  // namespace card_server
