// The code with which a run was started: the commit and branch (tracking/runs/git_state.h) and the
// uncommitted changes of tracked files, in <run>/code.json:
//   {"commit", "branch", "diff": as `git diff HEAD` prints it, "sha256": of the diff, "files",
//    "added", "removed", "note": if the diff differs from what git printed}, or, without a diff,
//   {"commit", "branch", "problem": why}
#pragma once

#include <filesystem>
#include <optional>
#include <stop_token>
#include <string>

#include "lockstep/config_value.h"
#include "tracking/runs/git_diff.h"
#include "tracking/runs/git_state.h"

namespace lockstep::tracking {

inline constexpr const char* kUnknownChanges = "unknown: ";

struct CodeState {
  GitState git;
  std::string diff;     // "": no changes, or a problem; bytes that are not UTF-8 are replaced
  std::string sha256;   // of the bytes that git printed; "" with a problem
  std::string problem;  // why there is no diff; "" otherwise
  std::string note;     // what is wrong with the diff; "" if nothing is
  int num_files = 0, num_added = 0, num_removed = 0;  // changed files; lines
};

// The commit, the branch and the output of `git diff HEAD` (tracking/runs/git_diff.h, also for
// `stop`). The files that git ignores or does not track are not in it. nullopt outside a working
// tree. Does not throw: what fails is the problem. A file system that hangs can delay the return
// without limit, because the state of git is read from files.
std::optional<CodeState> current_code_state(const GitCall& call, const std::stop_token& stop);

// Replaces code.json, or removes it. Throws Environment.
void write_code_state(const std::filesystem::path& run_dir, const std::optional<CodeState>& state);

// nullopt if it does not exist, is corrupt, or describes an earlier start of the run.
std::optional<CodeState> read_code_state(const std::filesystem::path& run_dir);

// Whether code.json describes the latest start of the run: it is not older than run.json, which
// each start writes.
bool has_code_state_of_start(const std::filesystem::path& run_dir);

// Without the diff: {"commit", "branch", "sha256", "files", "added", "removed"}, with "note" if
// there is one, or {"commit", "branch", "problem"}.
Json summary_json(const CodeState& state);

// "none", "2 files, +10 -3 lines (1a2b3c4d)" with the begin of the checksum, or "unknown: why".
std::string describe_changes(const CodeState& state);

}  // namespace lockstep::tracking
