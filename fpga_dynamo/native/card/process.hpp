// Forks of the process that has cards.
#pragma once

namespace card_model {

// Threads and locks of a card do not survive a fork: in the child every use is an error, and destructors do nothing.
void watch_forks();    // called when the first card is opened
bool forked();         // true in a child that was forked after that
void check_process();  // throws error in such a child

}  // namespace card_model
