// Stands in for the header of Vitis HLS: several elements of an array at once, whose places the caller keeps apart.
#pragma once
#include <cstddef>

#include <hls_vector.h>

namespace hls {

template <class T_, std::size_t N_, class A_>
inline vector<T_, N_> gather(const A_& array, const std::size_t (&places)[N_]) {
    vector<T_, N_> found;
    for (std::size_t i = 0; i < N_; i++) found[i] = array[places[i]];
    return found;
}
template <class T_, std::size_t N_, class A_>
inline void scatter(A_& array, const std::size_t (&places)[N_], const vector<T_, N_>& values) {
    for (std::size_t i = 0; i < N_; i++) array[places[i]] = values[i];
}

}  // namespace hls
