#include "copy_strided.hpp"

#include <algorithm>
#include <cstring>

namespace fd {

namespace {

struct dimension {
    int64_t size, to, from;  // strides in elements
};

// Dimensions of more than one element, the densest of `to` last, neighbours that lie as one in both merged.
std::vector<dimension> merged(const std::vector<int64_t>& shape, const std::vector<int64_t>& to,
                              const std::vector<int64_t>& from) {
    std::vector<dimension> all;
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] != 1) all.push_back({shape[i], to[i], from[i]});
    std::stable_sort(all.begin(), all.end(), [](const dimension& a, const dimension& b) { return a.to > b.to; });
    std::vector<dimension> result;
    for (const dimension& inner : all) {
        dimension* outer = result.empty() ? nullptr : &result.back();
        if (outer && outer->to == inner.size * inner.to && outer->from == inner.size * inner.from)
            *outer = {outer->size * inner.size, inner.to, inner.from};
        else
            result.push_back(inner);
    }
    return result;
}

template <typename T>
void copy_elements(T* to, const T* from, const std::vector<dimension>& all, size_t at) {
    const dimension& own = all[at];
    if (at + 1 < all.size()) {
        for (int64_t i = 0; i < own.size; ++i) copy_elements(to + i * own.to, from + i * own.from, all, at + 1);
    } else if (own.to == 1 && own.from == 1) {
        std::memcpy(to, from, static_cast<size_t>(own.size) * sizeof(T));
    } else {
        for (int64_t i = 0; i < own.size; ++i) to[i * own.to] = from[i * own.from];
    }
}

template <typename T>
void copy_as(void* to, const void* from, const std::vector<dimension>& all) {
    if (all.empty())
        std::memcpy(to, from, sizeof(T));
    else
        copy_elements(static_cast<T*>(to), static_cast<const T*>(from), all, 0);
}

}  // namespace

std::vector<int64_t> row_major(const std::vector<int64_t>& shape) {
    std::vector<int64_t> strides(shape.size());
    int64_t step = 1;
    for (size_t i = shape.size(); i-- > 0;) {
        strides[i] = step;
        step *= std::max<int64_t>(shape[i], 1);
    }
    return strides;
}

bool same_order(const std::vector<int64_t>& shape, const std::vector<int64_t>& a, const std::vector<int64_t>& b) {
    for (size_t i = 0; i < shape.size(); ++i)
        if (shape[i] > 1 && a[i] != b[i]) return false;
    return true;
}

int64_t elements_of(const std::vector<int64_t>& shape) {
    int64_t count = 1;
    for (const int64_t size : shape)
        if (size < 0 || __builtin_mul_overflow(count, size, &count)) return -1;
    return count;
}

int64_t span_of(const std::vector<int64_t>& shape, const std::vector<int64_t>& strides) {
    int64_t last = 0;
    for (size_t i = 0; i < shape.size(); ++i) {
        int64_t far = 0;
        if (shape[i] == 0) return 0;
        if (strides[i] < 0 || __builtin_mul_overflow(shape[i] - 1, strides[i], &far) ||
            __builtin_add_overflow(last, far, &last))
            return -1;
    }
    return last == INT64_MAX ? -1 : last + 1;
}

void copy_strided(void* to, const std::vector<int64_t>& to_strides, const void* from,
                  const std::vector<int64_t>& from_strides, const std::vector<int64_t>& shape, size_t bytes) {
    if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return;
    const std::vector<dimension> all = merged(shape, to_strides, from_strides);
    switch (bytes) {
        case 1: return copy_as<uint8_t>(to, from, all);
        case 2: return copy_as<uint16_t>(to, from, all);
        case 4: return copy_as<uint32_t>(to, from, all);
        default: return copy_as<uint64_t>(to, from, all);
    }
}

}  // namespace fd
