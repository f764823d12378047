// For the code that xclbin_build writes into dataflow regions of a plain kernel (xclbin_build/dataflow.py). It does not know
// the types of variables: streams get their depth here, and all others make processes run one after the other.
#pragma once
#include <cstddef>
#include <type_traits>
#include <utility>

#include "fifo.hpp"
#include "region.hpp"

namespace sim {

template <class T_, class = void>
struct has_fifo : std::false_type {};
template <class T_>
struct has_fifo<T_, decltype(static_cast<void>(std::declval<T_&>().fifo()))> : std::true_type {};

// depth: of a pragma; 0: the type's. Nothing for what is no stream.
template <class T_>
void limit_depth(T_& declared, std::size_t depth, const char* name) {
    if constexpr (std::is_array<T_>::value) {
        for (auto& element : declared) limit_depth(element, depth, name);
    } else if constexpr (has_fifo<T_>::value) {
        declared.fifo().limit(depth ? depth : T_::hardware_depth(), name);
    }
}

template <class T_, class = void>
struct has_step : std::false_type {};
template <class T_>
struct has_step<T_, decltype(static_cast<void>(std::declval<T_&>().step()))> : std::true_type {};

// What a region declares: a stream gets its depth, and a channel between one process and several is a process itself.
template <class T_>
void declare(region& of, T_& declared, std::size_t depth, const char* name) {
    if constexpr (std::is_array<T_>::value && has_step<std::remove_all_extents_t<T_>>::value) {
        for (auto& element : declared) declare(of, element, depth, name);
    } else if constexpr (has_step<T_>::value) {
        limit_depth(declared.in, 0, name);
        limit_depth(declared.out, 0, name);
        of.task(name, [&declared] { declared.step(); });
    } else {
        limit_depth(declared, depth, name);
    }
}

}  // namespace sim
