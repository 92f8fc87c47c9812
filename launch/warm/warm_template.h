// Warm starts: a process that has loaded LibTorch, the template, forks the workers of a launch, which then
// need not load it.
//
// A worker is a child of its launcher, as if that had started it: the template forks a process that forks
// the worker and exits; the launcher, which is the template's parent, adopts it (PR_SET_CHILD_SUBREAPER).
// In a sweep, one template serves all launches: it forks a process that becomes the launcher, with exec,
// and that has forked a template for its workers before. This process is a sibling of the template
// (CLONE_PARENT), hence a child of the sweep.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"
#include "core/system/poll_set.h"

namespace lockstep::launch {

struct ProcessMessage;

// The owner's end. A template that has ended, does not answer in time or cannot be started starts nothing:
// the owner then starts the processes itself. Thread: one, see ChildProcess.
class WarmTemplate {
 public:
  // Starts `trainer` as the template of workers of launches with `num_workers` on a node, for the
  // environment of this process. `label`: what it is for, in lists of processes.
  WarmTemplate(const std::string& trainer, int num_workers, const std::string& label);
  // The template that this process has from before its exec. `text`: the value of kTemplateVariable.
  // nullopt: it has none.
  static std::optional<WarmTemplate> inherited(const std::string& text);

  // Whether it still loads LibTorch. False after a minute.
  bool is_loading();
  // Wakes the event loop when it has loaded it.
  void watch(PollSet& polls);
  // 0: none.
  pid_t process() const { return process_ ? process_->pid() : 0; }

  // Starts a launcher that has a template. Waits until the template has loaded LibTorch. Uses program,
  // arguments, environment, stdout_fd and stderr_fd of `launcher`.
  std::optional<ChildProcess> start_launcher(const ChildCommand& launcher);
  // Starts a worker, which is a trainer. nullopt also if its environment differs from that in which the
  // template has loaded LibTorch.
  std::optional<ChildProcess> start_worker(const ChildCommand& worker);

 private:
  WarmTemplate(ChildProcess process, FileDescriptor link);

  // The process that the template has forked for `request`, and that waits for a message from here.
  std::optional<ChildProcess> fork(const ProcessMessage& request, const std::vector<int>& fds);
  void drop();

  std::optional<ChildProcess> process_;
  FileDescriptor link_;
  bool is_loaded_ = false;
  PollSet::Clock::time_point load_deadline_;
};

}  // namespace lockstep::launch
