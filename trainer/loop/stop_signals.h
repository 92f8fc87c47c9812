// Signals that request a graceful stop: SIGTERM and SIGUSR1 (schedulers send them before they
// reclaim a machine) and SIGINT. The training loop checks them once per step; another signal more
// than a second later terminates the process immediately.
#pragma once

#include <atomic>
#include <optional>
#include <thread>

#include "core/system/file_descriptor.h"
#include "core/system/progress_page.h"

namespace lockstep::trainer {

// Catches the signals during its lifetime. At most one instance per process. The destructor
// restores the previous handlers, except that if a signal was caught and there was no handler,
// further copies of that signal still count as the same one.
//
// A rank that hangs never reaches the end of its step. If a signal was caught and the step makes no
// progress for 10 s plus twice the longest step so far, the default action of the signal is taken.
class StopSignals {
 public:
  // `progress`: of this rank; must outlive this. Throws Environment.
  explicit StopSignals(const ProgressPage& progress);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // The first signal received; SIGINT if a launcher sent SIGTERM after Ctrl-C. Any thread.
  std::optional<int> signal() const;
  // Whether a launcher sent it to all ranks. Any thread.
  bool is_from_launcher() const;
  // Readable once SIGTERM was received.
  int term_fd() const { return term_.get(); }

 private:
  void watch(const std::stop_token& stop);

  const ProgressPage& progress_;
  FileDescriptor wake_;  // eventfd, written by the signal handler and the destructor
  FileDescriptor term_;  // eventfd, written by the handler of SIGTERM, never read
  std::jthread watcher_;
};

}  // namespace lockstep::trainer
