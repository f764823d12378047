// Digests, proofs of the token, and random numbers.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace card_server {

std::string hexadecimal(const uint8_t* bytes, size_t count);
// SHA-256, in hexadecimal.
std::string digest_of(const void* bytes, size_t count);
// HMAC-SHA256 (RFC 2104), in hexadecimal.
std::string keyed_digest(std::string_view key, std::string_view message);
// Takes as long for any text of the same length.
bool same_text(std::string_view one, std::string_view other);
// `count` random bytes of the kernel, in hexadecimal. Throws std::system_error if the kernel gives none.
std::string random_text(size_t count);

// What only somebody with the token can say. who: "client" or "server", whose proof it is; then the random number of each.
std::string proof(std::string_view token, const char* who, const std::string& of_client, const std::string& of_server);

}  // namespace card_server
