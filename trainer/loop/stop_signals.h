// Signals that ask a training to end in good order: SIGTERM and SIGUSR1 (schedulers send them
// before they take a machine back) and SIGINT. The training looks at it once a step; a signal that
// comes more than a second later ends the process at once.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "core/system/file_descriptor.h"
#include "core/system/progress_page.h"

namespace lockstep::trainer {

// While it lives, the signals are caught. One at a time in a process. After it the process has its
// own handlers again; where it had none and a signal has come, more copies of that one are still
// taken for the same signal.
//
// A rank that hangs never comes to the end of its step. So when a signal has come and the step
// makes no progress for 10 s and twice the longest step so far, the signal takes its usual effect
// after all.
class StopSignals {
 public:
  // `progress`: of this rank; outlives this. Throws Environment.
  explicit StopSignals(const ProgressPage& progress);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The first signal that came; for a launcher's SIGTERM after Ctrl-C, SIGINT. Any thread.
  std::optional<int> signal() const;

 private:
  void watch(const std::stop_token& stop);

  const ProgressPage& progress_;
  FileDescriptor wake_;  // an eventfd: by a signal, or by the destructor
  std::jthread watcher_;
};

}  // namespace lockstep::trainer
