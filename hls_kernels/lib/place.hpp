// An offset into the arena, in elements of the operand, as a record's field. The word holds 32 bits; on the emulator the operand may
// lie in host memory instead (windows.hpp), any distance from the arena.
#pragma once
#include <cstdint>

namespace fpga {

#ifdef __SYNTHESIS__
typedef uint32_t place_t;
#else
typedef int64_t place_t;
#endif

}  // namespace fpga
