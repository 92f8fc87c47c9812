// Scheduling priority of threads.
#pragma once

namespace lockstep {

// For background work: lowers the CPU and I/O priority of the calling thread and of the threads and
// processes that it starts. When competing with a busy thread, it gets about a tenth of the CPU and
// does not preempt that thread; on an idle CPU it is not limited. Best effort.
void lower_thread_priority();

}  // namespace lockstep
