// Warm starts: a process that has loaded LibTorch, the template, forks the workers of launches, which
// then need not load it.
//
// The template forks a process that forks the workers and becomes the launcher, with exec; so the
// workers are the launcher's children, as if it had started them. Until the launcher starts them
// (launch/workers/parked_workers.h), they are parked. The launcher is a child of the process that owns the
// template (CLONE_PARENT).
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"

namespace lockstep::launch {

// The owner's end. Thread: one, see ChildProcess.
class WarmTemplate {
 public:
  // Starts `trainer` as the template of launches with this number of workers, for the environment of
  // this process. `label`: what it is for, in lists of processes. A template that cannot be started is
  // one that has ended.
  WarmTemplate(const std::string& trainer, int num_workers, const std::string& label);

  // Starts a launcher, which has parked workers. nullopt: the template has ended, or does not answer
  // within 10 seconds; the caller starts the launcher itself. Uses program, arguments, environment,
  // stdout_fd and stderr_fd of `launcher`.
  std::optional<ChildProcess> start(const ChildCommand& launcher);

 private:
  // The process that the template has forked, of which it tells within `limit`.
  std::optional<ChildProcess> adopt_new(std::chrono::seconds limit);

  int num_workers_;
  FileDescriptor link_;
  std::optional<ChildProcess> process_;
};

}  // namespace lockstep::launch
