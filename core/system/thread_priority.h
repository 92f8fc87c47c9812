// Giving way to others.
#pragma once

namespace lockstep {

// For work that nobody waits for: the calling thread, and what it starts, gets what others leave of
// processor and disk, from now on. Beside a busy thread that is a tenth of a processor, and it does
// not interrupt one; beside an idle one it is all of it. Best effort.
void lower_thread_priority();

}  // namespace lockstep
