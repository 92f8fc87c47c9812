#include "dashboard/api/program_output.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxOutputBytes = 16u << 20;
using Clock = std::chrono::steady_clock;

pid_t spawn(const std::vector<std::string>& command, const std::vector<std::string>& variables,
            int output) {
  auto words = pointers_to(command);
  auto environment = pointers_to(variables);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = -1;
  const auto failed =
      ::posix_spawn(&pid, words[0], &actions, nullptr, words.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  return failed == 0 ? pid : -1;
}

// Reads to the end of the output. False on a timeout, or if the output is too long.
bool read_to_end(int input, Clock::time_point deadline, std::string& text) {
  char buffer[16384];
  while (text.size() < kMaxOutputBytes) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now());
    pollfd request{.fd = input, .events = POLLIN, .revents = 0};
    if (left.count() <= 0 || ::poll(&request, 1, static_cast<int>(left.count())) <= 0) return false;
    const auto count = ::read(input, buffer, sizeof(buffer));
    if (count <= 0) return count == 0;
    text.append(buffer, static_cast<size_t>(count));
  }
  return false;
}

}  // namespace

std::string program_output(const std::vector<std::string>& command,
                           std::chrono::milliseconds timeout,
                           const std::vector<std::string>& environment) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return "";
  const FileDescriptor input(ends[0]);
  FileDescriptor output(ends[1]);
  const auto pid = spawn(command, environment, output.get());
  if (pid < 0) return "";
  output.close();
  std::string text;
  const bool complete = read_to_end(input.get(), Clock::now() + timeout, text);
  if (!complete) ::kill(pid, SIGKILL);
  int status = 0;
  ::waitpid(pid, &status, 0);
  return complete && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? text : "";
}

}  // namespace lockstep::dashboard
