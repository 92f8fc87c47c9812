// A child process that leads its own process group. The kernel kills it when this process dies for
// any reason. Thread: all calls come from one thread, which must outlive the child (the kernel's
// parent-death signal is tied to that thread).
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

namespace lockstep {

// How a process terminated: by exit code or by signal.
struct ProcessExit {
  int code = 0;
  std::optional<int> signal;
};

struct ChildCommand {
  std::string program;                                // a path, or a name to search in PATH
  std::vector<std::string> arguments;                 // without argv[0]
  std::vector<std::string> environment;               // the complete environment, as "NAME=value"
  int stdout_fd = -1, stderr_fd = -1, stdin_fd = -1;  // -1: /dev/null
  std::vector<int> inherited_fds;  // stay open in the child, with the same numbers
  bool closes_others = false;      // closes all others, including those without O_CLOEXEC
  std::string directory;           // working directory; empty: that of this process
};

// A null-terminated array for exec and posix_spawn; the pointers point into `texts`.
std::vector<char*> pointers_to(const std::vector<std::string>& texts);

class ChildProcess {
 public:
  // Starts the process, with no blocked signals and default signal actions. Throws Config if the
  // program cannot be executed, Environment if the system cannot create another process.
  explicit ChildProcess(const ChildCommand& command);
  // A child that was not started by this class, such as one from before exec. It must have asked the
  // kernel to kill it when this process dies (PR_SET_PDEATHSIG). Makes it the leader of its group.
  static ChildProcess adopt(pid_t pid);
  // Calls reap().
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept;
  ChildProcess& operator=(ChildProcess&&) = delete;

  pid_t pid() const { return pid_; }
  // Sends a signal to the process group. No effect after reap().
  void signal_group(int signal) const;
  // The exit status, or nullopt while the process runs. Does not reap the zombie, so that its group
  // id cannot be reused.
  std::optional<ProcessExit> poll_exit() const;
  // Kills the remaining processes of the group and reaps the child. Call after poll_exit() returned
  // its status.
  void reap();
  // Does not wait for a process that survives SIGKILL, because it hangs in the kernel: init will reap it.
  void abandon();

 private:
  ChildProcess() = default;

  pid_t pid_ = -1;
};

}  // namespace lockstep
