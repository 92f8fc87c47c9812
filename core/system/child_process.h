// A child process that leads its own process group and that the kernel kills when this process
// dies, however it dies. Thread: the one that starts a child must outlive it (the kernel watches
// that thread), and makes all the calls.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// How a process ended: one of the two.
struct ProcessExit {
  int code = 0;
  std::optional<int> signal;
};

struct ChildCommand {
  std::string program;                   // a path, or a name that is looked up in PATH
  std::vector<std::string> arguments;    // without argv[0]
  std::vector<std::string> environment;  // all of it, as "NAME=value"
  int stdout_fd = -1, stderr_fd = -1, stdin_fd = -1;  // -1: /dev/null
  std::vector<int> inherited_fds;  // stay open in the child, under the same numbers
  bool closes_others = false;      // also those that were not opened with O_CLOEXEC
  std::string directory;           // to work in; empty: this process's
};

// As exec and posix_spawn want them; they point into `texts`.
std::vector<char*> pointers_to(const std::vector<std::string>& texts);

class ChildProcess {
 public:
  // Starts it, with no blocked signal and default signal actions.
  // Throws Config when the program cannot be executed, Environment when there is no room for a
  // process.
  explicit ChildProcess(const ChildCommand& command);
  // Kills the group and reaps, if that was not done yet.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

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
