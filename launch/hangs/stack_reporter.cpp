#include "launch/hangs/stack_reporter.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fmt/format.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

namespace lockstep::launch {
namespace {

constexpr int kMaxFrames = 40;
constexpr int kHandlerFrames = 2;  // the handler and the kernel's return from it
constexpr std::chrono::milliseconds kResponseTimeout{500}, kWalkTimeout{5000};

// State of the signal handler. `frames` is written only by the requested thread, after it has
// claimed the request.
std::atomic<int> requested_thread{0};
std::array<void*, kMaxFrames> frames;
std::atomic<int> num_frames{0};
sem_t walked;

int stack_signal() { return SIGRTMIN + 7; }

void walk_stack(int) {
  const int saved_errno = errno;
  auto self = static_cast<int>(::syscall(SYS_gettid));
  if (!requested_thread.compare_exchange_strong(self, 0)) return;  // too late: it has timed out
  num_frames = ::backtrace(frames.data(), kMaxFrames);
  ::sem_post(&walked);
  errno = saved_errno;
}

std::string describe_frame(void* address) {
  Dl_info info{};
  if (!::dladdr(address, &info) || !info.dli_fname) return fmt::format("{}", address);
  const auto file = std::filesystem::path(info.dli_fname).filename().string();
  if (!info.dli_sname)
    return fmt::format("{} +{:#x}", file,
                       static_cast<char*>(address) - static_cast<char*>(info.dli_fbase));
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status), std::free);
  std::string name = status == 0 ? readable.get() : info.dli_sname;
  if (name.size() > 120) name.replace(117, std::string::npos, "...");
  return fmt::format("{} ({})", name, file);
}

bool is_walked_within(std::chrono::milliseconds time) {
  timespec until{};
  ::clock_gettime(CLOCK_REALTIME, &until);
  const auto end = until.tv_nsec + std::chrono::nanoseconds(time).count();
  until.tv_sec += end / 1'000'000'000;
  until.tv_nsec = end % 1'000'000'000;
  while (::sem_timedwait(&walked, &until) != 0)
    if (errno != EINTR) return false;
  return true;
}

std::string stack_of(int thread) {
  static bool is_lost = false;  // a thread is stuck in the handler and may still write `frames`
  if (is_lost) return "      (not available)\n";
  requested_thread = thread;
  if (::syscall(SYS_tgkill, ::getpid(), thread, stack_signal()) != 0) return {};
  if (!is_walked_within(kResponseTimeout)) {
    auto canceled = thread;
    const bool has_begun = !requested_thread.compare_exchange_strong(canceled, 0);
    is_lost = has_begun && !is_walked_within(kWalkTimeout);
    if (!has_begun || is_lost) return "      (no response)\n";
  }
  std::string text;
  for (int i = kHandlerFrames; i < num_frames; ++i)
    text += fmt::format("      {}\n", describe_frame(frames[static_cast<size_t>(i)]));
  return text;
}

std::string name_of(const std::filesystem::path& task) {
  std::ifstream file(task / "comm");
  std::string name;
  std::getline(file, name);
  return name;
}

std::string stacks_of_process(int training_thread) {
  auto text = fmt::format("    training thread\n{}", stack_of(training_thread));
  std::error_code error;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task", error)) {
    const auto name = name_of(task.path());
    const auto thread = std::atoi(task.path().filename().c_str());
    if (name.starts_with("lockstep-") && thread != training_thread)
      text += fmt::format("    {}\n{}", name, stack_of(thread));
  }
  return text;
}

}  // namespace

StackReporter::StackReporter(ProgressPage& page)
    : page_(page), training_thread_(static_cast<int>(::syscall(SYS_gettid))) {
  ::sem_init(&walked, 0, 0);
  // The first walk loads the unwinder, which must not happen inside a signal handler.
  num_frames = ::backtrace(frames.data(), kMaxFrames);
  struct sigaction action {};
  action.sa_handler = walk_stack;
  action.sa_flags = SA_RESTART;
  ::sigaction(stack_signal(), &action, nullptr);
  // Read here, so that a request before the thread runs is not missed.
  thread_ = std::jthread([this, seen = page_.requested()](const std::stop_token& stop) {
    serve_requests(stop, seen);
  });
}

// The handler stays installed: a late signal must not kill the process.
StackReporter::~StackReporter() {
  thread_.request_stop();
  page_.request_stacks();
  thread_.join();
}

void StackReporter::serve_requests(const std::stop_token& stop, uint32_t seen) {
  while (!stop.stop_requested()) {
    if (!page_.wait_for_request(seen, std::chrono::minutes(1))) continue;
    seen = page_.requested();
    if (stop.stop_requested()) return;
    page_.publish_stacks(seen, stacks_of_process(training_thread_));
  }
}

}  // namespace lockstep::launch
