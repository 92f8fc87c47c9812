// Inside a rank: answers the launcher's question where its threads are
// (core/system/progress_page.h). A thread of its own waits for the question; the threads asked
// about are interrupted by a real-time signal for as long as it takes to walk their stacks. A
// system call that the kernel does not begin again (poll, nanosleep) ends with EINTR by that: the
// price of an answer, paid in a hang only.
#pragma once

#include <thread>

#include "core/system/progress_page.h"

namespace lockstep::launch {

class StackReporter {
 public:
  // Reports on the thread that makes it and on every thread whose name begins with "lockstep-".
  // One at a time in a process. `page` outlives it.
  explicit StackReporter(ProgressPage& page);
  ~StackReporter();
  StackReporter(const StackReporter&) = delete;
  StackReporter& operator=(const StackReporter&) = delete;

 private:
  void answer(const std::stop_token& stop, uint32_t seen);

  ProgressPage& page_;
  int training_thread_;
  std::jthread answerer_;
};

}  // namespace lockstep::launch
