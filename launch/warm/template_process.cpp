#include "launch/warm/template_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "core/system/child_process.h"
#include "launch/workers/parked_workers.h"
#include "launch/workers/process_message.h"
#include "launch/workers/worker_env.h"

namespace lockstep::launch {
namespace {

constexpr int kCannotStart = 127;
constexpr std::chrono::seconds kAnswerLimit(30);

bool has_one_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

// Makes lists of processes show these words, as much as fits.
void show_command_line(std::span<char> space, const std::vector<std::string>& words) {
  std::ranges::fill(space, '\0');
  for (const auto& word : words) {
    if (word.size() + 1 >= space.size()) return;
    std::ranges::copy(word, space.begin());
    space = space.subspan(word.size() + 1);
  }
}

// Of a new process, like a ChildProcess.
void lead_own_group(pid_t parent) {
  ::setpgid(0, 0);
  const bool dies_with_parent = ::prctl(PR_SET_PDEATHSIG, SIGKILL) == 0;
  if (!dies_with_parent || ::getppid() != parent) ::_exit(kCannotStart);
}

[[noreturn]] void become_launcher(const ProcessMessage& request, const std::string& parked) {
  auto environment = request.environment;
  if (!parked.empty()) environment.push_back(fmt::format("{}={}", kParkedVariable, parked));
  for (int stream = 1; stream <= 2; ++stream)
    if (::dup2(request.fds[static_cast<size_t>(stream - 1)].get(), stream) < 0)
      ::_exit(kCannotStart);
  const auto argv = pointers_to(request.words), envp = pointers_to(environment);
  ::execvpe(argv[0], argv.data(), envp.data());
  const auto reason =
      fmt::format("lockstep: error: cannot start '{}': {}\n", argv[0], std::strerror(errno));
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, reason.data(), reason.size());
  ::_exit(kCannotStart);
}

// In the process that becomes the launcher. Returns in its workers, with their link to it.
FileDescriptor fork_workers(const ProcessMessage& request, pid_t owner) {
  lead_own_group(owner);
  const auto self = ::getpid();
  if (!receive_message(request.fds[2].get(), kAnswerLimit)) ::_exit(kCannotStart);
  std::string parked;
  std::vector<FileDescriptor> links;
  for (int i = 0; i < request.numbers[0]; ++i) {
    auto [launcher_end, worker_end] = connected_sockets();
    const auto worker = ::fork();
    if (worker < 0) break;  // the launcher starts the others
    if (worker == 0) {
      lead_own_group(self);
      return std::move(worker_end);
    }
    ::setpgid(worker, worker);
    ::fcntl(launcher_end.get(), F_SETFD, 0);
    parked += fmt::format("{}{}:{}", parked.empty() ? "" : ",", worker, launcher_end.get());
    links.push_back(std::move(launcher_end));
  }
  become_launcher(request, parked);
}

// Gives the descriptors their numbers. They and `link` are moved out of the way first. Returns false if
// a number is that of a descriptor which this process opened when it was loaded.
bool place_descriptors(ProcessMessage& start, FileDescriptor& link) {
  const int free = 1 + std::max(STDERR_FILENO, *std::ranges::max_element(start.numbers));
  const auto moved = [&](const FileDescriptor& fd) {
    return FileDescriptor(::fcntl(fd.get(), F_DUPFD_CLOEXEC, free));
  };
  link = moved(link);
  std::vector<FileDescriptor> fds;
  for (const auto& fd : start.fds) fds.push_back(moved(fd));
  start.fds.clear();
  for (const int number : start.numbers)
    if (number > STDERR_FILENO && ::fcntl(number, F_GETFD) >= 0) return false;
  for (size_t i = 0; i < fds.size(); ++i)
    if (!fds[i].is_open() || ::dup2(fds[i].get(), start.numbers[i]) < 0) return false;
  return true;
}

std::vector<std::string> wait_for_start(FileDescriptor link) {
  auto start = receive_message(link.get(), std::nullopt);
  if (!start || start->numbers.empty() || start->numbers.size() != start->fds.size() ||
      !has_template_environment(start->environment) || !place_descriptors(*start, link))
    ::_exit(kCannotStart);  // the launcher starts another process, or has ended
  replace_environment(start->environment);
  if (!send_message(link.get(), {})) ::_exit(kCannotStart);
  return std::move(start->words);
}

// As fork(), but the new process has the same parent as this one. There are no other threads, whose
// locks could be held, and the new process only forks and executes another program.
pid_t fork_sibling() {
  return static_cast<pid_t>(
      ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

}  // namespace

bool is_template(int argc, char** argv) {
  struct stat status {};
  return argc == kTemplateArguments && std::strcmp(argv[1], kTemplateOption) == 0 &&
         ::fstat(std::atoi(argv[2]), &status) == 0 && S_ISSOCK(status.st_mode);
}

std::optional<std::vector<std::string>> serve_as_template(char** argv) {
  // The arguments follow one another in memory.
  const std::span<char> space(argv[0], argv[kTemplateArguments - 1] + kCommandLineSpace);
  const std::vector<std::string> own_words(argv, argv + kTemplateArguments - 1);
  FileDescriptor owner_link(std::atoi(argv[2]));
  show_command_line(space, own_words);
  ::fcntl(owner_link.get(), F_SETFD, FD_CLOEXEC);
  const auto owner = ::getppid();
  for (;;) {
    auto request = receive_message(owner_link.get(), std::nullopt);
    if (!request || request->fds.size() != 3 || request->numbers.size() != 1 || !has_one_thread())
      return std::nullopt;
    const auto launcher = fork_sibling();
    if (launcher < 0) return std::nullopt;
    if (launcher > 0) {
      if (!send_message(owner_link.get(), {.numbers = {launcher}})) return std::nullopt;
      continue;
    }
    owner_link.close();
    auto link = fork_workers(*request, owner);
    request.reset();
    auto words = wait_for_start(std::move(link));
    show_command_line(space, words);
    return words;
  }
}

}  // namespace lockstep::launch
