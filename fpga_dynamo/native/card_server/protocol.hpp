// The card server's protocol: what both ends must agree on. The server in C++ includes this file; Python's server and
// client have the same constants from it, as fpga_dynamo._native.card_protocol.
//
// A frame is a prefix (the magic, bytes of the head in 32 bits, bytes of the payload in 64 bits, little-endian), a head of
// JSON, and a payload of raw bytes. A request has the name of an operation under "op"; an answer has what was asked for, or
// a kind of error under "error" and its sentence under "text". fpga_dynamo/card_server/session.py describes operations.
#pragma once
#include <cstddef>
#include <cstdint>

namespace card_protocol {

// Of the operations and of their fields; both ends must have the same.
constexpr uint32_t VERSION = 1;

// Frames

constexpr char MAGIC[] = "FDcs";
constexpr size_t MAGIC_BYTES = 4, PREFIX_BYTES = 16;
constexpr uint32_t MOST_HEAD = 1u << 20;
// Of a request; what is larger is sent in several requests.
constexpr uint64_t MOST_PAYLOAD = uint64_t{64} << 20;
// Of a head before the token has been proved; there is no payload then.
constexpr uint32_t MOST_GREETING = 1u << 12;
constexpr unsigned GREETING_SECONDS = 10;

// Connections: a peer that the network no longer reaches is given up after QUIET_SECONDS + PROBES * PROBE_SECONDS.

constexpr unsigned QUIET_SECONDS = 10, PROBE_SECONDS = 5, PROBES = 3;
constexpr unsigned MOST_CONNECTIONS = 256, MOST_OF_SESSION = 64;

// The token: the key of an HMAC-SHA256 over "client|" or "server|", and the random numbers of both ends in hexadecimal.

constexpr size_t LEAST_TOKEN = 16, MOST_TOKEN = 4096, NONCE_BYTES = 32;

// Fields

constexpr uint64_t MOST_BYTES = (uint64_t{1} << 48) - 1;  // and offset
constexpr size_t MOST_TEXT = 4096, DIGEST_CHARACTERS = 64;
constexpr uint64_t MOST_TIMEOUT_MS = uint64_t{1} << 31;
constexpr uint64_t MOST_INDEX = uint64_t{1} << 31;            // of a card, and of a memory group
constexpr uint64_t MOST_ARGUMENT = uint64_t{1} << 16;         // of a kernel
constexpr size_t MOST_OBJECTS = 1u << 16, MOST_UPLOADS = 16;  // of a session

// Kinds of errors

constexpr char DEVICE_ERROR[] = "device", MEMORY_ERROR[] = "memory", XCLBIN_ERROR[] = "xclbin",
               INTERNAL_ERROR[] = "internal";

// Kinds of buffers

constexpr char NORMAL[] = "normal", DEVICE_ONLY[] = "device_only";

// Operations of a client who has proved the token.
#define CARD_OPERATIONS(X) \
    X(status)              \
    X(free)                \
    X(open)                \
    X(load)                \
    X(put)                 \
    X(fetch)               \
    X(xclbin_uuid)         \
    X(info)                \
    X(memory)              \
    X(kernel)              \
    X(group)               \
    X(bo)                  \
    X(address)             \
    X(write)               \
    X(place)               \
    X(read)                \
    X(copy)                \
    X(populate)            \
    X(discard)             \
    X(start)               \
    X(execute)             \
    X(wait)                \
    X(state)               \
    X(abort)

}  // namespace card_protocol
