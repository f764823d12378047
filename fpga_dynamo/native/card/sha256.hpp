// SHA-256 (FIPS 180-4).
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace card_model {

class sha256 {
public:
    void update(std::string_view bytes);
    std::array<uint8_t, 32> finish();

private:
    void compress(const uint8_t* block);

    std::array<uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                   0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
    std::array<uint8_t, 64> block_{};
    uint64_t bytes_ = 0;
};

}  // namespace card_model
