#include "tracking/agent/code_recorder.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <filesystem>
#include <string>
#include <vector>

#include "core/number_text.h"
#include "core/system/mutex.h"
#include "tracking/agent/agent.h"
#include "tracking/runs/code_state.h"

namespace lockstep::tracking {
namespace {

// Git ends in kGitTimeAfterStop; the rest is for writing the file.
constexpr auto kRecorderEndTimeout = kGitTimeAfterStop + std::chrono::seconds(1);
constexpr int kMaxGitSettings = 100;

bool must_record(const AgentOptions& options) {
  return options.parent_fd >= 0 && options.node_rank == 0 && options.config.git_diff;
}

// The variables on which the user's configuration of git depends. GIT_DIR and GIT_WORK_TREE are not
// among them: the commit of run.json is that of the working directory.
std::vector<std::string> git_environment(const Environment& environment) {
  std::vector<std::string> variables;
  const auto pass = [&](const std::string& name) {
    if (const auto value = environment(name))
      variables.push_back(fmt::format("{}={}", name, *value));
  };
  for (const char* name : {"PATH", "HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_COUNT"}) pass(name);
  const auto count = parse_number<int>(environment("GIT_CONFIG_COUNT").value_or("")).value_or(0);
  for (int i = 0; i < std::min(count, kMaxGitSettings); ++i) {
    pass(fmt::format("GIT_CONFIG_KEY_{}", i));
    pass(fmt::format("GIT_CONFIG_VALUE_{}", i));
  }
  return variables;
}

void record_code(const std::filesystem::path& run_dir, GitCall call, const std::stop_token& stop) {
  try {
    if (has_code_state_of_start(run_dir)) return;
    call.directory = std::filesystem::current_path();
    write_code_state(run_dir, current_code_state(call, stop));
  } catch (const std::exception&) {
    // A full disk, or no working directory: the run has no record of its changes.
  }
}

}  // namespace

struct CodeRecorder::Progress {
  Mutex mutex;
  std::condition_variable changed;
  bool is_done GUARDED_BY(mutex) = false;
};

CodeRecorder::CodeRecorder(const AgentOptions& options) {
  if (!must_record(options)) return;
  progress_ = std::make_shared<Progress>();
  // The thread may outlive this object.
  thread_ = std::jthread([progress = progress_, run_dir = options.run_dir,
                          call = GitCall{.environment = git_environment(options.environment)}](
                             const std::stop_token& stop) {
    record_code(run_dir, call, stop);
    const MutexLock lock(progress->mutex);
    progress->is_done = true;
    progress->changed.notify_all();
  });
}

CodeRecorder::~CodeRecorder() { end(); }

bool CodeRecorder::end() {
  if (!thread_.joinable()) return true;
  thread_.request_stop();
  auto& progress = *progress_;
  {
    MutexLock lock(progress.mutex);
    const bool is_done =
        progress.changed.wait_for(lock.native(), kRecorderEndTimeout,
                                  [&]() REQUIRES(progress.mutex) { return progress.is_done; });
    if (!is_done) {
      thread_.detach();
      return false;
    }
  }
  thread_.join();
  return true;
}

}  // namespace lockstep::tracking
