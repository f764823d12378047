// Policies for instances with deadlines: earliest deadline first (EDF) and least laxity first (LLF).
#pragma once
#include <memory>

#include "policy.hpp"

namespace scheduling {

std::unique_ptr<policy> make_edf(const system_model& system);
std::unique_ptr<policy> make_llf(const system_model& system);

}  // namespace scheduling
