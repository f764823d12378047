// Between the stock driver and its device-model process. When that process is gone, the driver reads from its socket
// forever with a lock held, or, if a question was on its way, ends the program by an assertion. So it never sees that
// socket's end: a thread here carries questions and replies, and gives the replies itself from then on.
#pragma once
#include <sys/types.h>

#include <functional>

// Puts itself into the connection of this process to process `model`, when no question is under way. Calls on_loss once,
// on its thread, when that process is gone. Does nothing if there is no such connection.
void relay_to_model(pid_t model, std::function<void()> on_loss);
