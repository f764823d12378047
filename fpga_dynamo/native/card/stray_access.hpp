// Accesses of a kernel outside of its arguments' buffers, told by the arguments' names.
#pragma once
#include <string>

#include "address_space.hpp"
#include "ert_command.hpp"
#include "xclbin.hpp"

namespace card_model {

// Where a kernel faulted: "card address 0x..., 0 bytes behind the end of argument 2 ('out')"; empty if that is not near
// any memory of the card.
std::string describe_access(const kernel_info& kernel, const ert_command& command, const address_space& memory,
                            const void* host);

// What the ends of its buffers show that it wrote where it should not: "wrote behind the end of ..."; empty if nothing.
// The next run finds them as they should be.
std::string take_stray_writes(const kernel_info& kernel, const ert_command& command, const address_space& memory);

}  // namespace card_model
