extern "C" void __hls_probe(int, const void*, ...) noexcept;
namespace __hls_check {
template <class T> struct shape { static const long long extent = 0; typedef T inner; };
template <class T, unsigned long N> struct shape<T[N]> { static const long long extent = N; typedef T inner; };
template <class T> struct held { typedef T to; };
template <class T> held<T> type_of(T&);
template <class T> struct pointer { static const bool yes = false; typedef T to; };
template <class T> struct pointer<T*> { static const bool yes = true; typedef T to; };
template <class T> struct pointer<T* const> { static const bool yes = true; typedef T to; };
// Locks and streams of blocks stand for the block.
template <class T> inline __attribute__((always_inline)) auto block_of(T& x, int) -> decltype((x.__hls_block())) {
    return x.__hls_block();
}
template <class T> inline __attribute__((always_inline)) T& block_of(T& x, long) { return x; }
template <class U, class... V>
inline __attribute__((always_inline)) void variable(int id, U& whole, V... values) noexcept {
    auto& x = block_of(whole, 0);
    typedef decltype(type_of(x)) T_; typedef typename T_::to T;
    typedef shape<typename pointer<T>::to> a; typedef shape<typename a::inner> b; typedef shape<typename b::inner> c;
    typedef shape<typename c::inner> d;
    const long long size = sizeof(typename pointer<T>::to);
    if constexpr (pointer<T>::yes)
        __hls_probe(id, (const void*)x, values..., size, -1LL, a::extent, b::extent, c::extent, d::extent);
    else
        __hls_probe(id, (const void*)&reinterpret_cast<const volatile char&>(x), values..., size, a::extent, b::extent,
                    c::extent, d::extent, 0LL);
}
}
