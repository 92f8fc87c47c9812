#include "launch/warm/template_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <span>

#include "core/system/child_process.h"
#include "core/system/file_descriptor.h"
#include "launch/environment/worker_env.h"
#include "launch/warm/process_message.h"

namespace lockstep::launch {
namespace {

constexpr int kCannotStart = 127;
constexpr std::chrono::seconds kStartLimit(30);

bool has_one_thread() {
  std::error_code error;
  const std::filesystem::directory_iterator threads("/proc/self/task", error);
  return !error && std::distance(begin(threads), end(threads)) == 1;
}

// Makes lists of processes show these words, as much as fits.
void show(std::span<char> space, const std::vector<std::string>& words) {
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

[[noreturn]] void become_launcher(const ProcessMessage& request,
                                  const std::optional<std::string>& own_template) {
  auto environment = request.environment;
  if (own_template) environment.push_back(fmt::format("{}={}", kTemplateVariable, *own_template));
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

// As fork(), but the new process has the same parent as this one. There are no other threads, whose
// locks could be held, and the new process only forks and executes another program.
pid_t fork_sibling() {
  return static_cast<pid_t>(
      ::syscall(SYS_clone, CLONE_PARENT | SIGCHLD, nullptr, nullptr, nullptr, nullptr));
}

// Forks the process that forks the worker, and waits for its end, after which the worker has its new
// parent. Returns the worker's id, 0 in the worker, or -1 if there is none.
pid_t fork_adopted() {
  auto [read_end, write_end] = make_pipe();
  const auto between = ::fork();
  if (between == 0) {
    const auto worker = ::fork();
    if (worker == 0) return 0;
    const bool is_sent = ::write(write_end.get(), &worker, sizeof worker) == sizeof worker;
    ::_exit(is_sent ? 0 : kCannotStart);
  }
  write_end.close();
  pid_t worker = -1;
  if (between < 0 || ::read(read_end.get(), &worker, sizeof worker) != sizeof worker) worker = -1;
  if (between > 0) ::waitpid(between, nullptr, 0);
  return worker;
}

class Template {
 public:
  explicit Template(char** argv)
      // The arguments follow one another in memory.
      : command_line_(argv[0], argv[kTemplateArguments - 1] + kTemplateBytes),
        environment_(template_space()),
        link_(std::atoi(argv[2])) {
    ::fcntl(link_.get(), F_SETFD, FD_CLOEXEC);
    const std::vector<std::string> words(argv, argv + kTemplateArguments - 1);
    show(command_line_, words);
  }

  std::optional<std::vector<std::string>> serve() {
    if (!has_one_thread() || !send_message(link_.get(), {})) return std::nullopt;
    for (;;) {
      auto request = receive_message(link_.get(), std::nullopt);
      if (!request || !has_one_thread()) return std::nullopt;
      if (request->kind == ProcessMessage::Kind::ForkLauncher)
        fork_launcher(*request);
      else if (fork_worker(*request))
        return std::move(request->words);
    }
  }

 private:
  // Returns in this process, and in the one that is the template of the new launcher.
  void fork_launcher(const ProcessMessage& request) {
    const auto launcher = request.fds.size() == 3 ? fork_sibling() : -1;
    if (launcher < 0) send_message(link_.get(), {});
    if (launcher > 0) send_message(link_.get(), {.numbers = {launcher}});
    if (launcher != 0) return;
    lead_own_group(owner_);
    if (!receive_message(request.fds[2].get(), kStartLimit)) ::_exit(kCannotStart);
    auto [launcher_end, template_end] = connected_sockets();
    owner_ = ::getpid();
    const auto own_template = ::fork();
    if (own_template == 0) {
      lead_own_group(owner_);
      link_ = std::move(template_end);
      if (!send_message(link_.get(), {})) ::_exit(kCannotStart);
      return;
    }
    if (own_template < 0) become_launcher(request, std::nullopt);
    ::setpgid(own_template, own_template);
    ::fcntl(launcher_end.get(), F_SETFD, 0);
    become_launcher(request, fmt::format("{}:{}", own_template, launcher_end.get()));
  }

  // Returns whether this is the worker.
  bool fork_worker(ProcessMessage& request) {
    const bool is_possible = !request.numbers.empty() &&
                             request.fds.size() == request.numbers.size() + 1 &&
                             has_template_environment(request.environment);
    const auto worker = is_possible ? fork_adopted() : -1;
    if (worker < 0) send_message(link_.get(), {});
    if (worker > 0) send_message(link_.get(), {.numbers = {worker}});
    if (worker == 0) begin_worker(request);
    return worker == 0;
  }

  void begin_worker(ProcessMessage& request) {
    link_.close();
    auto link = std::move(request.fds.back());
    request.fds.pop_back();
    // If there is none, the launcher has ended, or starts another process.
    if (!receive_message(link.get(), kStartLimit)) ::_exit(kCannotStart);
    lead_own_group(owner_);
    if (!place_descriptors(request, link)) ::_exit(kCannotStart);
    show(command_line_, request.words);
    show(environment_, entries_of_place(request.environment));
    replace_environment(request.environment);
    if (!send_message(link.get(), {})) ::_exit(kCannotStart);
  }

  std::span<char> command_line_, environment_;  // what lists of processes show
  FileDescriptor link_;
  pid_t owner_ = ::getppid();
};

}  // namespace

bool is_template(int argc, char** argv) {
  struct stat status {};
  return argc == kTemplateArguments && std::strcmp(argv[1], kTemplateOption) == 0 &&
         ::fstat(std::atoi(argv[2]), &status) == 0 && S_ISSOCK(status.st_mode);
}

std::optional<std::vector<std::string>> serve_as_template(char** argv) {
  return Template(argv).serve();
}

}  // namespace lockstep::launch
