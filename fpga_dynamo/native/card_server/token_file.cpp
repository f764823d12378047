#include "token_file.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <stdexcept>

#include "protocol.hpp"

namespace card_server {

namespace {

const std::string MAKE = "; make one with: (umask 077; openssl rand -hex 32 > FILE)";

bool is_own(const struct stat& status) { return status.st_uid == geteuid() || status.st_uid == 0; }

// The first folder on the way to `path` where somebody else can put another file; "" if nobody can.
std::string weak_folder(const std::string& path) {
    const std::unique_ptr<char, void (*)(void*)> real(realpath(path.c_str(), nullptr), std::free);
    std::string folder = real ? real.get() : path;
    while (folder.size() > 1) {
        folder.resize(folder.rfind('/'));
        struct stat status{};
        const std::string name = folder.empty() ? "/" : folder;
        if (stat(name.c_str(), &status) != 0) return name;
        const bool sticky = status.st_mode & S_ISVTX;  // nobody replaces files of others there
        if (!is_own(status) || ((status.st_mode & S_IWOTH) && !sticky)) return name;
    }
    return "";
}

}  // namespace

std::string read_private(const std::string& path, const std::string& what) {
    const std::string where = what + " " + path;
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (file < 0) throw std::runtime_error(where + " cannot be read: " + std::strerror(errno) + MAKE);
    struct stat status{};
    fstat(file, &status);
    std::string content(1 << 16, '\0');
    const ssize_t bytes = S_ISREG(status.st_mode) ? read(file, content.data(), content.size()) : -1;
    close(file);
    if (!S_ISREG(status.st_mode)) throw std::runtime_error(where + " is no regular file" + MAKE);
    if (bytes < 0) throw std::runtime_error(where + " cannot be read" + MAKE);
    if (!is_own(status) || (status.st_mode & (S_IRWXG | S_IRWXO)))
        throw std::runtime_error(where + " can be read by others; it must be yours, with mode 600");
    if (const std::string weak = weak_folder(path); !weak.empty())
        throw std::runtime_error(where + " can be changed by others: " + weak +
                                 " can be written by everyone, or is another user's; move it to a folder of your own");
    content.resize(static_cast<size_t>(bytes));
    return content;
}

std::string read_token(const std::string& path) {
    const std::string text = read_private(path, "token file");
    const char* const space = " \t\r\n\v\f";
    const size_t begin = text.find_first_not_of(space), end = text.find_last_not_of(space);
    std::string token = begin == std::string::npos ? "" : text.substr(begin, end - begin + 1);
    if (token.size() < card_protocol::LEAST_TOKEN || token.size() > card_protocol::MOST_TOKEN)
        throw std::runtime_error("token file " + path + " has " + std::to_string(token.size()) +
                                 " characters, and a token has " + std::to_string(card_protocol::LEAST_TOKEN) + " to " +
                                 std::to_string(card_protocol::MOST_TOKEN) + MAKE);
    return token;
}

}  // namespace card_server
