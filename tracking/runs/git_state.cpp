// Source: gitrepository-layout(5): HEAD, refs, packed-refs, commondir, and ".git" as a file.
#include "tracking/runs/git_state.h"

#include <sstream>
#include <string_view>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxRefBytes = 4096, kMaxPackedRefBytes = 64u << 20;
constexpr std::string_view kHeads = "refs/heads/";

// Without the line break; "" if it cannot be read.
std::string first_line(const fs::path& path) {
  std::error_code ignored;
  if (!fs::is_regular_file(path, ignored)) return "";
  const auto text = read_file(path, kMaxRefBytes);
  return text.substr(0, text.find_first_of("\r\n"));
}

std::string after(const std::string& line, std::string_view begin) {
  return line.starts_with(begin) ? line.substr(begin.size()) : "";
}

bool is_commit(const std::string& text) {
  return (text.size() == 40 || text.size() == 64) &&
         text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The directory that contains HEAD, of a working tree; "" if there is none.
fs::path git_directory(const fs::path& working_tree) {
  std::error_code ignored;
  const auto git = working_tree / ".git";
  if (fs::is_directory(git, ignored)) return git;
  // A linked working tree (git worktree).
  const auto elsewhere = after(first_line(git), "gitdir: ");
  return elsewhere.empty() ? "" : working_tree / elsewhere;
}

std::string packed_commit(const fs::path& packed_refs, const std::string& ref) {
  std::error_code ignored;
  if (!fs::is_regular_file(packed_refs, ignored)) return "";
  std::istringstream lines(read_file(packed_refs, kMaxPackedRefBytes));
  for (std::string line; std::getline(lines, line);)
    if (line.ends_with(" " + ref)) return line.substr(0, line.find(' '));
  return "";
}

std::string commit_of(const fs::path& git, const std::string& ref) {
  const auto common = first_line(git / "commondir");
  const auto shared = common.empty() ? git : git / common;
  const auto commit = first_line(shared / ref);
  return commit.empty() ? packed_commit(shared / "packed-refs", ref) : commit;
}

}  // namespace

fs::path find_working_tree(fs::path directory) {
  for (directory = fs::absolute(directory);; directory = directory.parent_path()) {
    if (!git_directory(directory).empty()) return directory;
    if (directory == directory.parent_path()) return "";
  }
}

std::optional<GitState> read_git_state(const fs::path& directory) try {
  const auto working_tree = find_working_tree(directory);
  if (working_tree.empty()) return std::nullopt;
  const auto git = git_directory(working_tree);
  const auto head = first_line(git / "HEAD");
  if (is_commit(head)) return GitState{.commit = head, .branch = ""};
  const auto ref = after(head, "ref: ");
  const auto branch = after(ref, kHeads);
  if (branch.empty() || ref.find("..") != std::string::npos) return std::nullopt;
  GitState state{.commit = commit_of(git, ref), .branch = branch};
  if (!state.commit.empty() && !is_commit(state.commit)) return std::nullopt;
  return state;
} catch (const Error&) {
  return std::nullopt;
} catch (const fs::filesystem_error&) {
  return std::nullopt;
}

}  // namespace lockstep::tracking
