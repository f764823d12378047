// Fingerprints of memory: how a change is noticed that no version counter shows.
#pragma once
#include <cstddef>
#include <cstdint>

// Hash of `samples` words spread over the memory (first and last among them), or of every byte if that is 0.
uint64_t fingerprint(const uint8_t* memory, size_t bytes, size_t samples);

// Has the samples fetched: parameters are packed on the card, so nobody else reads them and they come from memory.
void prefetch_samples(const uint8_t* memory, size_t bytes, size_t samples);
