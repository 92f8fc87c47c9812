// The code with which a run was started: the commit and branch (tracking/runs/git_state.h) and the
// uncommitted changes of tracked files, in <run>/code.json:
//   {"commit", "branch", "diff": as `git diff HEAD` prints it, "sha256": of the diff, "files",
//    "added", "removed"}, or, without a diff, {"commit", "branch", "problem": why}
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "lockstep/config_value.h"
#include "tracking/runs/git_state.h"

namespace lockstep::tracking {

inline constexpr const char* kUnknownChanges = "unknown: ";
inline constexpr size_t kMaxDiffBytes = 1u << 20;

struct CodeState {
  GitState git;
  std::string diff;     // "": no changes, or a problem; bytes that are not UTF-8 are replaced
  std::string sha256;   // of the diff; "" with a problem
  std::string problem;  // why there is no diff; "" otherwise
  int num_files = 0, num_added = 0, num_removed = 0;  // changed files; lines
};

struct GitCall {
  std::filesystem::path directory;       // in a working tree
  std::vector<std::string> environment;  // as "NAME=value"
  std::chrono::milliseconds timeout{std::chrono::seconds(10)};
};

// Runs `git diff HEAD`, without other programs that the configuration of the repository names. The
// files that git ignores or does not track are not in it. nullopt outside a working tree. Does not
// throw: what fails is the problem. `stop`: the time that remains is then at most two seconds.
// Thread: the calling one must outlive the call (core/system/child_process.h).
std::optional<CodeState> current_code_state(const GitCall& call, const std::stop_token& stop);

// Replaces code.json, or removes it. Throws Environment.
void write_code_state(const std::filesystem::path& run_dir, const std::optional<CodeState>& state);

// nullopt if it does not exist or is corrupt.
std::optional<CodeState> read_code_state(const std::filesystem::path& run_dir);

// Whether code.json describes the latest start of the run, when run.json was written.
bool has_code_state_of_start(const std::filesystem::path& run_dir);

// Without the diff: {"commit", "branch", "sha256", "files", "added", "removed"}, or {"commit",
// "branch", "problem"}.
Json summary_json(const CodeState& state);

// "none", "2 files, +10 -3 lines (1a2b3c4d)" with the begin of the checksum, or "unknown: why".
std::string describe_changes(const CodeState& state);

}  // namespace lockstep::tracking
