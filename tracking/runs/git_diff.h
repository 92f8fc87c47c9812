// The uncommitted changes of a working tree, as `git diff HEAD` prints them.
#pragma once

#include <chrono>
#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

namespace lockstep::tracking {

inline constexpr size_t kMaxDiffBytes = 1u << 20;
// What remains of the time after `stop`.
inline constexpr auto kGitTimeAfterStop = std::chrono::seconds(2);

struct GitCall {
  std::filesystem::path directory;       // in a working tree
  std::vector<std::string> environment;  // as "NAME=value"
  std::chrono::milliseconds timeout{std::chrono::seconds(10)};
};

struct GitDiff {
  std::string text;     // "": no changes, or a problem; any bytes
  std::string problem;  // one line; "" if there is none
};

// The format does not depend on the configuration of the user. Programs that the configuration names
// are not run: diff drivers, clean filters (a changed file of Git LFS has its own content in the
// diff), file system monitors and transports. It is a problem if core.worktree names a directory
// other than the one with ".git", or if ".git" leads to a repository elsewhere that does not name
// this working tree; those of `git worktree` and submodules do, those of `git init
// --separate-git-dir` do not. The index is not written. Does not throw. `stop`: at most
// kGitTimeAfterStop remains. A file system that hangs can delay the start of git for 30 seconds and
// its end for 5 (core/system/child_process.h).
// Thread: the calling one must outlive the call (core/system/child_process.h).
GitDiff run_git_diff(const GitCall& call, const std::stop_token& stop);

}  // namespace lockstep::tracking
