// CRC-32 as zlib, gzip and PNG have it (polynomial 0xedb88320).
#pragma once
#include <cstddef>
#include <cstdint>

namespace fd {

// Of `bytes` bytes that follow those with the checksum `before` (0: none).
uint32_t crc32(const void* data, size_t bytes, uint32_t before = 0);

}  // namespace fd
