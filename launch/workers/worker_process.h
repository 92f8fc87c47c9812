// One worker: a child process that leads its own process group and that the kernel kills when this
// process dies, however it dies. Thread: the one that starts a worker must outlive it (the kernel
// watches that thread), and makes all the calls.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "launch/report/process_exit.h"

namespace lockstep {

struct WorkerCommand {
  std::string program;                   // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // all of it, as "NAME=value"
  int stdout_fd = -1, stderr_fd = -1;
  int stdin_fd = -1;               // -1: /dev/null
  std::vector<int> inherited_fds;  // stay open in the worker, under the same numbers
};

class WorkerProcess {
 public:
  // Starts it, with no blocked signal and default signal actions.
  // Throws Config when the program cannot be executed, Environment when there is no room for a
  // process.
  explicit WorkerProcess(const WorkerCommand& command);
  // Kills the group and reaps, if that was not done yet.
  ~WorkerProcess();
  WorkerProcess(WorkerProcess&& other) noexcept;
  WorkerProcess& operator=(WorkerProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Sends to the whole group. No effect after reap().
  void signal_group(int signal) const;
  // How it ended, or nullopt while it runs. It stays a zombie, so that its group's number cannot be
  // taken by another.
  std::optional<ProcessExit> poll_exit() const;
  // Kills what is left of its group and forgets it. Call when poll_exit() told its end.
  void reap();

 private:
  pid_t pid_ = -1;
};

}  // namespace lockstep
