#include "core/system/progress_page.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <ctime>
#include <new>

#include "lockstep/error.h"

namespace lockstep {
namespace {

int64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1'000'000'000LL + now.tv_nsec;
}

double age_s(int64_t since_ns, int64_t now_ns) {
  return since_ns ? std::max<double>(0, static_cast<double>(now_ns - since_ns) * 1e-9) : 0;
}

// A string with one writer thread and readers in any process (seqlock): readers retry during a
// write.
template <size_t Bytes>
class SharedText {
 public:
  void write(std::string_view text) {
    const auto length = std::min(text.size(), Bytes);
    version_.fetch_add(1, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);  // before what follows is visible
    length_.store(static_cast<uint32_t>(length), std::memory_order_relaxed);
    for (size_t at = 0; at < length; at += 8) {
      uint64_t word = 0;
      std::memcpy(&word, text.data() + at, std::min<size_t>(8, length - at));
      words_[at / 8].store(word, std::memory_order_relaxed);
    }
    version_.fetch_add(1, std::memory_order_release);
  }

  std::string read() const {
    for (int tries = 0; tries < 1000; ++tries) {
      const auto before = version_.load(std::memory_order_acquire);
      std::string text(std::min<size_t>(length_.load(std::memory_order_relaxed), Bytes), '\0');
      for (size_t at = 0; at < text.size(); at += 8) {
        const auto word = words_[at / 8].load(std::memory_order_acquire);
        std::memcpy(text.data() + at, &word, std::min<size_t>(8, text.size() - at));
      }
      if (before % 2 == 0 && version_.load(std::memory_order_acquire) == before) return text;
    }
    return {};  // the writer was killed during a write
  }

 private:
  std::atomic<uint32_t> version_{0}, length_{0};
  std::array<std::atomic<uint64_t>, Bytes / 8> words_{};
};

long futex(const std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* time) {
  static_assert(sizeof(std::atomic<uint32_t>) == sizeof(uint32_t));
  return ::syscall(SYS_futex, reinterpret_cast<const uint32_t*>(&word), operation, value, time,
                   nullptr, 0);
}

// Waits until `word` differs from `value`. Returns false on timeout.
bool wait_while(const std::atomic<uint32_t>& word, uint32_t value, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (word.load(std::memory_order_acquire) == value) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return false;
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    const timespec wait{.tv_sec = ns / 1'000'000'000, .tv_nsec = ns % 1'000'000'000};
    futex(word, FUTEX_WAIT, value, &wait);
  }
  return true;
}

}  // namespace

struct ProgressPage::Memory {
  std::atomic<int64_t> pid{0}, rank{0};
  std::atomic<uint32_t> phase{0}, in_operation{0};
  std::atomic<int64_t> step{0}, total_steps{0};
  std::atomic<uint64_t> operations{0}, buckets_started{0}, buckets_finished{0};
  std::atomic<int64_t> phase_since{0}, operation_since{0}, changed{0};
  std::atomic<int64_t> step_since{0}, longest_step_ns{0};
  std::atomic<int64_t> warn_after_ms{0}, timeout_ms{0};
  std::atomic<uint32_t> stacks_requested{0}, stacks_published{0};
  SharedText<128> operation, detail;
  SharedText<4096> bucket_names;
  SharedText<16384> stacks;
  SharedText<kMaxFailureBytes> failure;
  std::atomic<int> launch_signal{0};
  std::atomic<uint32_t> has_ended_step{0};
};

const char* phase_name(Phase phase) {
  switch (phase) {
    case Phase::Starting: return "starting";
    case Phase::Connecting: return "connecting to the other ranks";
    case Phase::Building: return "building the model";
    case Phase::DataWait: return "waiting for data";
    case Phase::Forward: return "forward";
    case Phase::Backward: return "backward";
    case Phase::Optimizer: return "optimizer";
    case Phase::Voting: return "step vote";
    case Phase::Logging: return "logging";
    case Phase::Evaluating: return "evaluating";
    case Phase::Saving: return "saving a checkpoint";
    case Phase::Finishing: return "finishing";
  }
  return "unknown";
}

bool is_stepping(Phase phase) { return phase >= Phase::DataWait && phase <= Phase::Logging; }

FileDescriptor ProgressPage::make_shared_memory() {
  // As in python/lockstep/launcher_page.py.
  static_assert(offsetof(Memory, step) == 24 && offsetof(Memory, phase_since) == 64 &&
                offsetof(Memory, stacks_requested) == 120 && offsetof(Memory, operation) == 128 &&
                offsetof(Memory, stacks) == 4504 && sizeof(Memory) == 29104);
  static_assert(offsetof(Memory, has_ended_step) == 29100);  // as in tests/launch/
  FileDescriptor fd(::memfd_create("lockstep-progress", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  // Sealed: if a rank shrank it, its readers would receive SIGBUS.
  if (!fd.is_open() || ::ftruncate(fd.get(), sizeof(Memory)) != 0 ||
      ::fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0)
    throw errno_error("cannot create shared memory for a rank");
  return fd;
}

ProgressPage::ProgressPage() : memory_(nullptr) {
  void* memory =
      ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw errno_error("cannot allocate a progress page");
  memory_ = new (memory) Memory;
}

// Not constructed: zero bytes are a valid Memory, and the other process may already use it.
ProgressPage::ProgressPage(int fd) : memory_(nullptr) {
  if (::lseek(fd, 0, SEEK_END) != static_cast<off_t>(sizeof(Memory)))
    throw environment_error("the progress page was created by a different build of Lockstep");
  void* memory = ::mmap(nullptr, sizeof(Memory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) throw errno_error("cannot map the progress page");
  memory_ = static_cast<Memory*>(memory);
}

ProgressPage::~ProgressPage() { ::munmap(memory_, sizeof(Memory)); }

void ProgressPage::touch() { memory_->changed.store(monotonic_ns(), std::memory_order_release); }

void ProgressPage::begin(int rank) {
  memory_->rank = rank;
  memory_->pid = ::getpid();
  memory_->operations = 0;
  memory_->in_operation = 0;
  enter(Phase::Starting);
}

void ProgressPage::set_limits(std::chrono::milliseconds warn_after,
                              std::chrono::milliseconds timeout) {
  memory_->warn_after_ms = warn_after.count();
  memory_->timeout_ms = timeout.count();
}

void ProgressPage::enter(Phase phase) {
  memory_->phase.store(static_cast<uint32_t>(phase), std::memory_order_relaxed);
  const auto now = monotonic_ns();
  memory_->phase_since.store(now, std::memory_order_relaxed);
  memory_->changed.store(now, std::memory_order_release);
}

void ProgressPage::set_step(int64_t step, int64_t total_steps) {
  const auto now = monotonic_ns();
  const auto before = memory_->step_since.exchange(now, std::memory_order_relaxed);
  // Decays, so that a single slow step (e.g. with an evaluation) loses its effect over time.
  const auto faded = memory_->longest_step_ns.load(std::memory_order_relaxed) * 127 / 128;
  memory_->longest_step_ns.store(std::max(faded, before ? now - before : 0),
                                 std::memory_order_relaxed);
  memory_->step.store(step, std::memory_order_relaxed);
  memory_->total_steps.store(total_steps, std::memory_order_relaxed);
}

void ProgressPage::end_step(int64_t step, int64_t total_steps) {
  set_step(step, total_steps);
  memory_->has_ended_step.store(1, std::memory_order_relaxed);
}

void ProgressPage::begin_operation(std::string_view name, std::string_view detail) {
  memory_->operation.write(name);
  memory_->detail.write(detail);
  memory_->operation_since.store(monotonic_ns(), std::memory_order_relaxed);
  memory_->operations.fetch_add(1, std::memory_order_relaxed);
  memory_->in_operation.store(1, std::memory_order_relaxed);
  touch();
}

void ProgressPage::end_operation() {
  memory_->in_operation.store(0, std::memory_order_relaxed);
  touch();
}

void ProgressPage::set_bucket_names(const std::string& lines) {
  memory_->bucket_names.write(lines);
}

void ProgressPage::begin_buckets() {
  memory_->buckets_started.store(0, std::memory_order_relaxed);
  memory_->buckets_finished.store(0, std::memory_order_relaxed);
}

void ProgressPage::start_bucket() {
  memory_->buckets_started.fetch_add(1, std::memory_order_relaxed);
  touch();
}

void ProgressPage::finish_bucket() {
  memory_->buckets_finished.fetch_add(1, std::memory_order_relaxed);
  touch();
}

void ProgressPage::report_failure(std::string_view text) {
  if (memory_->failure.read().empty()) memory_->failure.write(text);
}

std::string ProgressPage::failure() const { return memory_->failure.read(); }

void ProgressPage::set_launch_signal(int signal) { memory_->launch_signal = signal; }

int ProgressPage::launch_signal() const { return memory_->launch_signal; }

ProgressSnapshot ProgressPage::snapshot() const {
  const auto& memory = *memory_;
  ProgressSnapshot view;
  const auto changed = memory.changed.load(std::memory_order_acquire);
  view.rank = static_cast<int>(memory.rank.load());
  view.pid = memory.pid.load();
  const auto phase = memory.phase.load();
  view.phase = phase <= static_cast<uint32_t>(Phase::Finishing) ? Phase{phase} : Phase::Starting;
  view.step = memory.step.load();
  view.total_steps = memory.total_steps.load();
  view.has_ended_step = memory.has_ended_step.load() != 0;
  view.longest_step_s = static_cast<double>(memory.longest_step_ns.load()) * 1e-9;
  view.operations = memory.operations.load();
  view.in_operation = memory.in_operation.load() != 0;
  view.operation = memory.operation.read();
  view.detail = memory.detail.read();
  view.buckets_started = memory.buckets_started.load();
  view.buckets_finished = memory.buckets_finished.load();
  view.bucket_names = memory.bucket_names.read();
  const auto now = monotonic_ns();
  view.phase_age_s = age_s(memory.phase_since.load(), now);
  view.operation_age_s = age_s(memory.operation_since.load(), now);
  view.idle_s = age_s(changed, now);
  view.warn_after_s = static_cast<double>(memory.warn_after_ms.load()) * 1e-3;
  view.timeout_s = static_cast<double>(memory.timeout_ms.load()) * 1e-3;
  return view;
}

uint32_t ProgressPage::requested() const { return memory_->stacks_requested.load(); }

uint32_t ProgressPage::request_stacks() {
  const auto request = memory_->stacks_requested.fetch_add(1) + 1;
  futex(memory_->stacks_requested, FUTEX_WAKE, 1 << 30, nullptr);
  return request;
}

bool ProgressPage::wait_for_request(uint32_t last_seen, std::chrono::milliseconds time) const {
  return wait_while(memory_->stacks_requested, last_seen, time);
}

void ProgressPage::publish_stacks(uint32_t request, const std::string& text) {
  memory_->stacks.write(text);
  memory_->stacks_published.store(request);
  futex(memory_->stacks_published, FUTEX_WAKE, 1 << 30, nullptr);
}

bool ProgressPage::wait_for_stacks(uint32_t request, std::chrono::milliseconds time) const {
  const auto end = std::chrono::steady_clock::now() + time;
  for (auto seen = memory_->stacks_published.load(); seen != request;
       seen = memory_->stacks_published.load()) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (!wait_while(memory_->stacks_published, seen, left)) return false;
  }
  return true;
}

std::string ProgressPage::stacks() const { return memory_->stacks.read(); }

}  // namespace lockstep
