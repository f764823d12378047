// A header of the user's own that the core includes: found beside the core.
#pragma once
#include <cstdint>

typedef int64_t accumulate_index;
