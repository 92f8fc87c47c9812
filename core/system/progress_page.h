// Progress of a rank, in memory shared with its launcher: the rank writes, the launcher reads, and
// neither ever waits for the other. Readable even while the rank hangs or is stopped.
//
// Thread: one thread, the training thread, writes; finish_bucket() may be called from any thread;
// snapshot() from any thread or process.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/system/file_descriptor.h"

namespace lockstep {

enum class Phase : uint32_t {
  Starting,
  Connecting,
  Building,
  DataWait,
  Forward,
  Backward,
  Optimizer,
  Voting,
  Logging,
  Evaluating,
  Saving,
  Finishing
};

// "waiting for data", "forward", ...
const char* phase_name(Phase phase);

// True for the phases of a training step, which repeat and are short.
bool is_stepping(Phase phase);

// Phases outside steps (evaluations, checkpoints, ...) may take this many times the timeout of a
// step before a rank counts as hanging.
constexpr int kTimeoutFactorOutsideSteps = 10;

struct ProgressSnapshot {
  int rank = 0;
  int64_t pid = 0;  // 0: the process has not opened the page yet
  Phase phase = Phase::Starting;
  int64_t step = 0, total_steps = 0;  // optimizer steps done
  // From 1. After the last step, that one.
  int64_t current_step() const { return std::min(step + 1, total_steps); }
  bool has_ended_step = false;        // this process, since its start
  double longest_step_s = 0;          // of at least the last 100
  // Collectives entered so far; all ranks enter the same ones in the same order.
  uint64_t operations = 0;
  bool in_operation = false;
  std::string operation;  // the last one entered
  std::string detail;     // shape and type, if any
  // Gradient buckets whose all-reduce has started and finished in this backward pass.
  uint64_t buckets_started = 0, buckets_finished = 0;
  std::string bucket_names;  // one line per bucket: its parameters
  // Seconds since it entered its phase, its operation, and since anything above changed.
  double phase_age_s = 0, operation_age_s = 0, idle_s = 0;
  // As configured: when to warn about a wait (0: the reader decides), and when it fails.
  double warn_after_s = 0, timeout_s = 0;
};

class ProgressPage {
 public:
  // Memory that a child process can map; close-on-exec. Throws Environment.
  static FileDescriptor make_shared_memory();

  ProgressPage();  // private memory, when there is no launcher
  // Maps what make_shared_memory() made. Throws Environment.
  explicit ProgressPage(int fd);
  ~ProgressPage();
  ProgressPage(const ProgressPage&) = delete;
  ProgressPage& operator=(const ProgressPage&) = delete;

  // Called by the rank. Each is a few stores and a clock read. begin(): of a process, or of a new
  // group of ranks; no operation counts as entered.
  void begin(int rank);
  void set_limits(std::chrono::milliseconds warn_after, std::chrono::milliseconds timeout);
  void enter(Phase phase);
  void set_step(int64_t step, int64_t total_steps);
  void end_step(int64_t step, int64_t total_steps);  // set_step() of one that this process did
  void begin_operation(std::string_view name, std::string_view detail = {});
  void end_operation();
  void set_bucket_names(const std::string& lines);
  void begin_buckets();  // at the start of a backward pass
  void start_bucket();
  void finish_bucket();
  // Reason of a failure: at most kMaxFailureBytes, in the format of launch/report/error_file.h. It
  // reaches the launcher even when the disk is full. Only the first call has an effect.
  static constexpr size_t kMaxFailureBytes = 8192;
  void report_failure(std::string_view text);

  // Called by the launcher.
  ProgressSnapshot snapshot() const;
  std::string failure() const;  // empty: none was reported

  // The signal that ended the launch; ranks get SIGTERM regardless. 0: none yet.
  void set_launch_signal(int signal);
  int launch_signal() const;

  // Stacks on request: the launcher requests them under a new number, for which the rank's reporter
  // waits. The wait functions return false on timeout.
  uint32_t request_stacks();
  bool wait_for_request(uint32_t last_seen, std::chrono::milliseconds time) const;
  uint32_t requested() const;
  void publish_stacks(uint32_t request, const std::string& text);
  bool wait_for_stacks(uint32_t request, std::chrono::milliseconds time) const;
  std::string stacks() const;

 private:
  struct Memory;
  void touch();
  Memory* memory_;
};

}  // namespace lockstep
