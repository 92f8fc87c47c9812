#include "trainer/commands/store_check.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <csignal>
#include <optional>
#include <thread>

#include "core/findings.h"
#include "core/number_text.h"
#include "core/system/file_descriptor.h"
#include "core/system/mutex.h"
#include "core/system/poll_set.h"
#include "formats/store/object_store.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"
#include "trainer/commands/store_trials.h"
#include "trainer/prepared/object_stores.h"

namespace lockstep::trainer {
namespace {

constexpr std::chrono::seconds kRemovalTimeout{10};

// What the thread that checks has found, for the one that waits.
class FoundSoFar {
 public:
  FoundSoFar() : changed_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!changed_.is_open()) throw errno_error("eventfd");
  }

  int descriptor() const { return changed_.get(); }

  void begin(const char* what) {
    const MutexLock lock(mutex_);
    current_ = what;
  }
  void add(Finding finding) {
    {
      const MutexLock lock(mutex_);
      found_.push_back(std::move(finding));
    }
    notify();
  }
  void end() {
    {
      const MutexLock lock(mutex_);
      is_done_ = true;
    }
    notify();
  }

  // Those since the last call; true: there will be no more.
  bool take(std::vector<Finding>& findings) {
    uint64_t count = 0;
    (void)!::read(changed_.get(), &count, sizeof count);
    const MutexLock lock(mutex_);
    findings = std::exchange(found_, {});
    return is_done_;
  }
  std::string current() {
    const MutexLock lock(mutex_);
    return current_;
  }

 private:
  void notify() {
    const uint64_t one = 1;
    (void)!::write(changed_.get(), &one, sizeof one);
  }

  FileDescriptor changed_;
  Mutex mutex_;
  std::string current_ GUARDED_BY(mutex_);
  std::vector<Finding> found_ GUARDED_BY(mutex_);
  bool is_done_ GUARDED_BY(mutex_) = false;
};

// Delivers SIGINT and SIGTERM to this thread only, through a descriptor. Create it before other
// threads.
class EndingSignals {
 public:
  EndingSignals() {
    ::sigemptyset(&set_);
    ::sigaddset(&set_, SIGINT);
    ::sigaddset(&set_, SIGTERM);
    ::pthread_sigmask(SIG_BLOCK, &set_, nullptr);
    descriptor_ = FileDescriptor(::signalfd(-1, &set_, SFD_CLOEXEC | SFD_NONBLOCK));
    if (!descriptor_.is_open()) throw errno_error("signalfd");
  }

  int descriptor() const { return descriptor_.get(); }

  // The signal that was received; it ends the process when it is raised again.
  std::optional<int> signal() const {
    signalfd_siginfo info{};
    if (::read(descriptor_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
    return static_cast<int>(info.ssi_signo);
  }
  void raise_again(int signal) const {
    ::pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
    ::raise(signal);
  }

 private:
  sigset_t set_{};
  FileDescriptor descriptor_;
};

void run_trials(StoreTrials& trials, FoundSoFar& found) {
  for (const auto& trial : StoreTrials::all()) {
    found.begin(trial.what);
    auto finding = trials.run(trial);
    if (finding) found.add(std::move(*finding));
    if (trials.is_pointless()) break;
  }
  found.end();
}

// Waits until a thread has ended, or a signal or `deadline`. Returns the signal.
std::optional<int> wait_for(FoundSoFar& found, const EndingSignals& signals,
                            PollSet::Clock::time_point deadline, bool& is_done,
                            const std::function<void(const Finding&)>& show) {
  std::optional<int> signal;
  while (!is_done && !signal && PollSet::Clock::now() < deadline) {
    PollSet set;
    set.watch({.fd = found.descriptor(), .events = POLLIN, .revents = 0}, [](short) {});
    set.watch({.fd = signals.descriptor(), .events = POLLIN, .revents = 0},
              [&](short) { signal = signals.signal(); });
    set.wake_at(deadline);
    set.wait();
    std::vector<Finding> findings;
    is_done = found.take(findings);
    for (const auto& finding : findings) show(finding);
  }
  return signal;
}

// Removes the test object of trials that have not ended, in another thread. Returns what remains.
std::string remove_rest(const std::shared_ptr<StoreTrials>& trials, const EndingSignals& signals) {
  trials->stop();
  const auto name = trials->object_that_may_exist();
  if (name.empty()) return "";
  const auto removal = std::make_shared<FoundSoFar>();
  std::thread([trials, removal] {
    trials->remove_quietly();
    removal->end();
  }).detach();
  bool is_done = false;
  wait_for(*removal, signals, PollSet::Clock::now() + kRemovalTimeout, is_done,
           [](const Finding&) {});
  return is_done && trials->object_that_may_exist().empty() ? "" : name;
}

std::vector<Finding> check_within(const std::string& path, std::chrono::seconds timeout,
                                  const std::function<void(const Finding&)>& show) {
  use_object_stores({});
  const auto place = formats::parse_store_path(path);
  const EndingSignals signals;
  if (formats::is_bucket(formats::options_of_store(place).kind)) formats::start_buckets();
  const auto trials = std::make_shared<StoreTrials>(place);
  const auto found = std::make_shared<FoundSoFar>();
  std::vector<Finding> findings;
  const auto keep = [&](const Finding& finding) {
    findings.push_back(finding);
    show(finding);
  };
  const auto deadline = PollSet::Clock::now() + timeout;
  std::thread([trials, found] { run_trials(*trials, *found); }).detach();
  bool is_done = false;
  const auto signal = wait_for(*found, signals, deadline, is_done, keep);
  if (is_done) return findings;
  const auto rest = remove_rest(trials, signals);
  const auto remains = rest.empty() ? "" : fmt::format("; {} may remain", rest);
  keep({found->current(), Health::Problem,
        signal ? "interrupted" + remains
               : fmt::format("not done when the {} s of all checks were over: the network or the "
                             "server is slow; --timeout gives them longer{}",
                             timeout.count(), remains)});
  if (signal) signals.raise_again(*signal);
  return findings;
}

}  // namespace

int check_store(const std::vector<std::string>& words,
                const std::function<void(const std::string&)>& print) {
  const auto seconds = words.size() == 3 ? parse_number<int>(words[1]) : std::nullopt;
  if (!seconds) throw config_error("--check-store is for `lockstep doctor s3://bucket/prefix`");
  const bool as_json = words[2] == "json";
  const auto findings =
      check_within(words[0], std::chrono::seconds(*seconds), [&](const Finding& finding) {
        if (!as_json) print(line_of_finding(finding));
      });
  if (as_json) print(json_of_findings(findings));
  return exit_code_of_findings(findings);
}

}  // namespace lockstep::trainer
