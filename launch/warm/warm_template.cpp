#include "launch/warm/warm_template.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>

#include "launch/environment/worker_env.h"
#include "launch/warm/process_message.h"
#include "launch/warm/template_process.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

constexpr std::chrono::seconds kLoadLimit(60);
constexpr std::chrono::seconds kAnswerLimit(10);

// While it exists, this process becomes the parent of its descendants whose parents exit.
class AdoptsOrphans {
 public:
  AdoptsOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 1); }
  ~AdoptsOrphans() { ::prctl(PR_SET_CHILD_SUBREAPER, 0); }
  AdoptsOrphans(const AdoptsOrphans&) = delete;
  AdoptsOrphans& operator=(const AdoptsOrphans&) = delete;
};

bool is_own_child(pid_t pid) {
  siginfo_t info{};
  return pid > 0 &&
         ::waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// This launcher may have raised its limit since the template was started.
void copy_descriptor_limit(pid_t pid) {
  rlimit own{};
  if (::getrlimit(RLIMIT_NOFILE, &own) == 0) ::prlimit(pid, RLIMIT_NOFILE, &own, nullptr);
}

ProcessMessage request_of(ProcessMessage::Kind kind, const ChildCommand& command) {
  ProcessMessage request{
      .kind = kind, .words = command.arguments, .environment = command.environment};
  request.words.insert(request.words.begin(), command.program);
  return request;
}

}  // namespace

WarmTemplate::WarmTemplate(const std::string& trainer, int num_workers, const std::string& label)
    : load_deadline_(PollSet::Clock::now() + kLoadLimit) {
  try {
    auto [own_end, other_end] = connected_sockets();
    link_ = std::move(own_end);
    auto environment = template_environment(num_workers);
    environment.push_back(std::string(kTemplateSpace) + "=" + std::string(kTemplateBytes, ' '));
    process_.emplace(ChildCommand{.program = trainer,
                                  .arguments = {kTemplateOption, std::to_string(other_end.get()),
                                                label, std::string(kTemplateBytes, ' ')},
                                  .environment = std::move(environment),
                                  .inherited_fds = {other_end.get()}});
  } catch (const Error&) {  // without it, starts only take longer
    drop();
  }
}

WarmTemplate::WarmTemplate(ChildProcess process, FileDescriptor link)
    : process_(std::move(process)),
      link_(std::move(link)),
      load_deadline_(PollSet::Clock::now() + kLoadLimit) {}

std::optional<WarmTemplate> WarmTemplate::inherited(const std::string& text) {
  int pid = 0, fd = -1;
  if (std::sscanf(text.c_str(), "%d:%d", &pid, &fd) != 2 || !is_own_child(pid)) return std::nullopt;
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return WarmTemplate(ChildProcess::adopt(pid), FileDescriptor(fd));
}

void WarmTemplate::drop() {
  process_.reset();
  link_.close();
}

bool WarmTemplate::is_loading() {
  if (!process_ || is_loaded_) return false;
  is_loaded_ = receive_message(link_.get(), std::chrono::milliseconds(0)).has_value();
  if (!is_loaded_ && (process_->poll_exit() || PollSet::Clock::now() >= load_deadline_)) drop();
  return process_ && !is_loaded_;
}

void WarmTemplate::watch(PollSet& polls) {
  if (!process_ || is_loaded_) return;
  polls.watch({.fd = link_.get(), .events = POLLIN, .revents = 0}, [](short) {});
  polls.wake_at(load_deadline_);
}

std::optional<ChildProcess> WarmTemplate::fork(const ProcessMessage& request,
                                               const std::vector<int>& fds) {
  if (!send_message(link_.get(), request, fds)) {
    drop();
    return std::nullopt;
  }
  const auto answer = receive_message(link_.get(), kAnswerLimit);
  if (!answer) drop();
  if (!answer || answer->numbers.size() != 1) return std::nullopt;
  return ChildProcess::adopt(answer->numbers.front());
}

std::optional<ChildProcess> WarmTemplate::start_launcher(const ChildCommand& launcher) {
  while (is_loading()) {
    PollSet polls;
    watch(polls);
    polls.wait();
  }
  if (!process_) return std::nullopt;
  auto [own_end, other_end] = connected_sockets();
  // The new process waits for a message: it does nothing that is not known here.
  auto process = fork(request_of(ProcessMessage::Kind::ForkLauncher, launcher),
                      {launcher.stdout_fd, launcher.stderr_fd, other_end.get()});
  other_end.close();
  if (process && !send_message(own_end.get(), {})) process.reset();
  return process;
}

std::optional<ChildProcess> WarmTemplate::start_worker(const ChildCommand& worker) {
  if (is_loading() || !process_) return std::nullopt;
  check(worker.directory.empty() && !worker.closes_others, "not possible with a template");
  auto request = request_of(ProcessMessage::Kind::ForkWorker, worker);
  std::vector<int> fds;
  const auto add = [&](int fd, int number) {
    if (fd < 0) return;  // it has /dev/null
    fds.push_back(fd);
    request.numbers.push_back(number);
  };
  add(worker.stdin_fd, STDIN_FILENO);
  add(worker.stdout_fd, STDOUT_FILENO);
  add(worker.stderr_fd, STDERR_FILENO);
  for (const int fd : worker.inherited_fds) add(fd, fd);
  auto [own_end, other_end] = connected_sockets();
  fds.push_back(other_end.get());

  const AdoptsOrphans adopts;
  auto process = fork(request, fds);
  other_end.close();
  if (!process) return std::nullopt;
  copy_descriptor_limit(process->pid());
  if (!send_message(own_end.get(), {}) || !receive_message(own_end.get(), kAnswerLimit))
    process.reset();
  return process;
}

}  // namespace lockstep::launch
