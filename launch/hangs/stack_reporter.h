// Inside a rank: publishes the stacks of its threads when the launcher requests them
// (core/system/progress_page.h). A separate thread waits for requests and interrupts each reported
// thread with a real-time signal whose handler walks the stack. System calls that are not restarted
// (poll, nanosleep) return EINTR then; requests are made only during a hang.
#pragma once

#include <thread>

#include "core/system/progress_page.h"

namespace lockstep::launch {

class StackReporter {
 public:
  // Reports the constructing thread and every thread whose name begins with "lockstep-". At most
  // one instance per process. `page` must outlive it.
  explicit StackReporter(ProgressPage& page);
  ~StackReporter();
  StackReporter(const StackReporter&) = delete;
  StackReporter& operator=(const StackReporter&) = delete;

 private:
  void serve_requests(const std::stop_token& stop, uint32_t seen);

  ProgressPage& page_;
  int training_thread_;
  std::jthread thread_;
};

}  // namespace lockstep::launch
