#include "digest.hpp"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <vector>

#include "sha256.hpp"

namespace card_server {

using card_model::sha256;

std::string hexadecimal(const uint8_t* bytes, size_t count) {
    static const char digits[] = "0123456789abcdef";
    std::string text;
    text.reserve(2 * count);
    for (size_t i = 0; i < count; ++i) (text += digits[bytes[i] >> 4]) += digits[bytes[i] & 15];
    return text;
}

std::string digest_of(const void* bytes, size_t count) {
    sha256 made;
    made.update({static_cast<const char*>(bytes), count});
    const auto result = made.finish();
    return hexadecimal(result.data(), result.size());
}

std::string keyed_digest(std::string_view key, std::string_view message) {
    constexpr size_t BLOCK = 64;
    constexpr char INNER = 0x36, OUTER = 0x5c;
    const auto bytes_of = [](sha256& made) {
        const auto result = made.finish();
        return std::string(result.begin(), result.end());
    };
    std::string block(key);
    if (block.size() > BLOCK) {
        sha256 shorter;
        shorter.update(block);
        block = bytes_of(shorter);
    }
    block.resize(BLOCK, '\0');
    const auto with = [&](char pad) {
        std::string result = block;
        for (char& c : result) c = static_cast<char>(c ^ pad);
        return result;
    };
    sha256 inner, outer;
    inner.update(with(INNER));
    inner.update(message);
    outer.update(with(OUTER));
    outer.update(bytes_of(inner));
    const auto result = outer.finish();
    return hexadecimal(result.data(), result.size());
}

bool same_text(std::string_view one, std::string_view other) {
    if (one.size() != other.size()) return false;
    unsigned difference = 0;
    for (size_t i = 0; i < one.size(); ++i) difference |= static_cast<unsigned char>(one[i] ^ other[i]);
    return difference == 0;
}

std::string random_text(size_t count) {
    std::vector<uint8_t> bytes(count);
    for (size_t filled = 0; filled < count;) {
        const ssize_t got = getrandom(bytes.data() + filled, count - filled, 0);
        if (got < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), "getrandom");
        filled += static_cast<size_t>(std::max<ssize_t>(got, 0));
    }
    return hexadecimal(bytes.data(), bytes.size());
}

std::string proof(std::string_view token, const char* who, const std::string& of_client, const std::string& of_server) {
    return keyed_digest(token, std::string(who) + "|" + of_client + "|" + of_server);
}

}  // namespace card_server
