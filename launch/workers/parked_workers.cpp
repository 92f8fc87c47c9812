#include "launch/workers/parked_workers.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <sstream>

#include "launch/workers/process_message.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::seconds kAnswerLimit(30);

bool is_own_child(pid_t pid) {
  siginfo_t info{};
  return pid > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// This launcher may have raised its limit.
void copy_descriptor_limit(pid_t pid) {
  rlimit own{};
  if (::getrlimit(RLIMIT_NOFILE, &own) == 0) ::prlimit(pid, RLIMIT_NOFILE, &own, nullptr);
}

bool start_in(const ChildProcess& process, int link, const ChildCommand& command) {
  check(command.directory.empty() && !command.closes_others, "not possible with a parked worker");
  copy_descriptor_limit(process.pid());
  ProcessMessage start{.words = command.arguments, .environment = command.environment};
  start.words.insert(start.words.begin(), command.program);
  std::vector<int> fds;
  const auto add = [&](int fd, int number) {
    if (fd < 0) return;  // it has /dev/null
    fds.push_back(fd);
    start.numbers.push_back(number);
  };
  add(command.stdin_fd, STDIN_FILENO);
  add(command.stdout_fd, STDOUT_FILENO);
  add(command.stderr_fd, STDERR_FILENO);
  for (const int fd : command.inherited_fds) add(fd, fd);
  return send_message(link, start, fds) && receive_message(link, kAnswerLimit);
}

}  // namespace

ParkedWorkers::ParkedWorkers(const std::string& text) {
  std::istringstream items(text);
  for (std::string item; std::getline(items, item, ',');) {
    int pid = 0, fd = -1;
    if (std::sscanf(item.c_str(), "%d:%d", &pid, &fd) != 2 || !is_own_child(pid)) continue;
    ::fcntl(fd, F_SETFD, FD_CLOEXEC);
    parked_.push_back({FileDescriptor(fd), ChildProcess::adopt(pid)});
  }
}

ChildProcess ParkedWorkers::start(const ChildCommand& command) {
  while (!parked_.empty()) {
    auto parked = std::move(parked_.front());
    parked_.pop_front();
    if (start_in(parked.process, parked.link.get(), command)) return std::move(parked.process);
  }
  return ChildProcess(command);
}

}  // namespace lockstep::launch
