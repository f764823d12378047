// Fingerprints of host memory: how fpga_dynamo.runtime.cards.change notices writes that no version counter shows.
#include <nanobind/nanobind.h>
#include <nanobind/stl/vector.h>

#include <cstdint>
#include <cstring>
#include <vector>

#include "bindings.hpp"
#include "fingerprint.hpp"

namespace nb = nanobind;

namespace {

uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9e3779b97f4a7c15ull;  // Fibonacci hashing: the golden ratio's bits
    return hash ^ (hash >> 29);
}

uint64_t word_at(const uint8_t* memory, size_t bytes) {
    uint64_t word = 0;
    std::memcpy(&word, memory, bytes < 8 ? bytes : 8);
    return word;
}

bool is_sampled(size_t bytes, size_t samples) { return samples != 0 && bytes > samples * 8; }

// Bytes from one sample to the next; the word after the last one is the last of all.
size_t distance(size_t bytes, size_t samples) { return (bytes - 8) / (samples - 1); }

}  // namespace

uint64_t fingerprint(const uint8_t* memory, size_t bytes, size_t samples) {
    uint64_t hash = bytes;
    if (is_sampled(bytes, samples)) {
        for (size_t i = 0; i < samples; ++i) hash = mixed(hash, word_at(memory + distance(bytes, samples) * i, 8));
        return mixed(hash, word_at(memory + bytes - 8, 8));
    }
    for (size_t i = 0; i < bytes; i += 8) hash = mixed(hash, word_at(memory + i, bytes - i));
    return hash;
}

void prefetch_samples(const uint8_t* memory, size_t bytes, size_t samples) {
    if (!is_sampled(bytes, samples)) return __builtin_prefetch(memory);
    for (size_t i = 0; i < samples; ++i) __builtin_prefetch(memory + distance(bytes, samples) * i);
}

namespace {

std::vector<int64_t> fingerprints(const std::vector<uintptr_t>& addresses, const std::vector<size_t>& sizes,
                                  size_t samples) {
    if (addresses.size() != sizes.size()) throw nb::value_error("give as many sizes as addresses");
    if (samples == 1) throw nb::value_error("samples must be 0 (everything) or at least 2");
    nb::gil_scoped_release release;
    std::vector<int64_t> result(addresses.size());
    for (size_t i = 0; i < addresses.size(); ++i)
        result[i] =
            static_cast<int64_t>(fingerprint(reinterpret_cast<const uint8_t*>(addresses[i]), sizes[i], samples));
    return result;
}

}  // namespace

void bind_fingerprint(nb::module_& module) {
    module.def("fingerprints", &fingerprints, nb::arg("addresses"), nb::arg("sizes"), nb::arg("samples"));
}
