// PyTorch's threads as lanes.
//
// OpenMP's threads spin for milliseconds after each parallel region, such as an operator of eager: each on a CPU that a
// helper of the card would have to share with it. So a run that begins while they do takes them for helpers.
#pragma once
#include <cstdint>

namespace card_model {

// Whether at least `count` threads of the calling thread's OpenMP team wait for their next parallel region, spinning. Only
// for a program's first thread, and the OpenMP that PyTorch uses: others may not have a team, and would get one.
bool threads_to_borrow(unsigned count);

// Calls the body on the calling thread and on each of its team; returns when all calls have. The body must not throw.
void on_borrowed_threads(void (*body)(void*), void* context);

// How often that was, in this process.
uint64_t borrowed_runs();

}  // namespace card_model
