// Source: git-config(1), gitrepository-layout(5), gitattributes(5) on filters, git(1) on GIT_ALLOW_PROTOCOL.
#include "tracking/runs/git_diff.h"

#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>
#include <set>
#include <sstream>
#include <utility>

#include "core/printable.h"
#include "core/system/child_process.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tracking/runs/git_state.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;
using GitClock = std::chrono::steady_clock;
using Words = std::vector<std::string>;

constexpr int kGitTickMs = 20;
constexpr size_t kMaxSettingsBytes = 64u << 10, kMaxErrorBytes = 4096, kMaxShownError = 200,
                 kMaxPathBytes = 8192;
constexpr std::string_view kFilterSection = "filter.";

// The time for all calls of git together, which `stop` shortens.
class GitTime {
 public:
  GitTime(std::chrono::milliseconds timeout, const std::stop_token& stop)
      : deadline_(GitClock::now() + timeout), stop_(stop) {}

  bool is_over() {
    if (stop_.stop_requested() && !std::exchange(is_stopping_, true))
      deadline_ = std::min(deadline_, GitClock::now() + kGitTimeAfterStop);
    return GitClock::now() >= deadline_;
  }

 private:
  GitClock::time_point deadline_;
  const std::stop_token& stop_;
  bool is_stopping_ = false;
};

// An output of git up to a limit.
class OutputPipe {
 public:
  explicit OutputPipe(size_t max_bytes) : max_bytes_(max_bytes) {}
  int input() const { return pipe_.write_end.get(); }
  void close_input() { pipe_.write_end.close(); }
  // For poll(); -1 after the end.
  int output() const { return pipe_.read_end.get(); }
  // Reads what is available.
  void read() {
    std::array<char, 65536> bytes{};
    const auto count = ::read(output(), bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) return;
    if (count < 0) throw errno_error("cannot read the output of git");
    if (count == 0) return pipe_.read_end.close();
    const auto kept = std::min(static_cast<size_t>(count), max_bytes_ - text_.size());
    text_.append(bytes.data(), kept);
    is_truncated_ |= kept < static_cast<size_t>(count);
  }
  const std::string& text() const { return text_; }
  bool is_truncated() const { return is_truncated_; }

 private:
  const size_t max_bytes_;
  Pipe pipe_ = make_pipe();
  std::string text_;
  bool is_truncated_ = false;
};

struct GitOutput {
  std::string text;
  std::string problem;  // "" after exit code 0
  int exit_code = 0;
  bool is_too_long = false;
};

std::string first_line_of(const std::string& text) {
  return printable(text.substr(0, text.find_first_of("\r\n")), kMaxShownError);
}

std::string failure(const std::string& command, int exit_code, const std::string& errors) {
  const auto line = first_line_of(errors);
  return fmt::format("git {} failed (exit code {}){}{}", command, exit_code,
                     line.empty() ? "" : ": ", line);
}

// Reads both outputs until they end. Returns the problem.
std::string read_outputs(OutputPipe& output, OutputPipe& errors, GitTime& time) {
  while (output.output() >= 0 || errors.output() >= 0) {
    if (time.is_over()) return "did not end in time";
    std::array<pollfd, 2> requests{pollfd{.fd = output.output(), .events = POLLIN},
                                   pollfd{.fd = errors.output(), .events = POLLIN}};
    if (::poll(requests.data(), requests.size(), kGitTickMs) <= 0) continue;
    if (requests[0].revents != 0) output.read();
    if (requests[1].revents != 0) errors.read();
    if (output.is_truncated()) return "printed too much";
  }
  return "";
}

// `arguments` begin with the options of git itself; `command` is the word for messages.
GitOutput run_git(const GitCall& call, const Words& arguments, const std::string& command,
                  size_t max_bytes, GitTime& time) {
  if (time.is_over()) return {.problem = fmt::format("git {} did not end in time", command)};
  OutputPipe output(max_bytes), errors(kMaxErrorBytes);
  auto environment = call.environment;
  // A missing object of a partial clone is not fetched, also by versions without GIT_NO_LAZY_FETCH.
  for (const char* variable :
       {"GIT_NO_LAZY_FETCH=1", "GIT_TERMINAL_PROMPT=0", "GIT_ALLOW_PROTOCOL=none"})
    environment.emplace_back(variable);
  const ChildProcess git({.program = "git",
                          .arguments = arguments,
                          .environment = environment,
                          .stdout_fd = output.input(),
                          .stderr_fd = errors.input(),
                          .directory = call.directory.string()});
  output.close_input();
  errors.close_input();
  if (auto problem = read_outputs(output, errors, time); !problem.empty())
    return {.problem = fmt::format("git {} {}", command, problem),
            .is_too_long = output.is_truncated()};
  auto end = git.poll_exit();
  for (; !end; end = git.poll_exit()) {
    if (time.is_over()) return {.problem = fmt::format("git {} did not end in time", command)};
    ::poll(nullptr, 0, kGitTickMs);
  }
  const int code = end->signal.value_or(end->code);
  const bool failed = end->signal || code != 0;
  return {.text = output.text(),
          .problem = failed ? failure(command, code, errors.text()) : "",
          .exit_code = code};
}

// The settings of the user and the repository that must not take effect, without their values.
Words read_settings(const GitCall& call, GitTime& time, std::string& problem) {
  const auto listed = run_git(
      call, {"config", "--null", "--name-only", "--get-regexp", "^(filter\\.|core\\.worktree$)"},
      "config", kMaxSettingsBytes, time);
  constexpr int kNoSuchKey = 1;
  if (listed.exit_code != kNoSuchKey) problem = listed.problem;
  Words keys;
  for (size_t begin = 0; problem.empty() && begin < listed.text.size();) {
    const auto end = std::min(listed.text.find('\0', begin), listed.text.size());
    keys.push_back(listed.text.substr(begin, end - begin));
    begin = end + 1;
  }
  return keys;
}

// Where git finds the repository.
struct Repository {
  fs::path working_tree, git_directory, common_directory;
};

Repository find_repository(const GitCall& call, GitTime& time, std::string& problem) {
  const auto paths =
      run_git(call, {"rev-parse", "--show-toplevel", "--absolute-git-dir", "--git-common-dir"},
              "rev-parse", kMaxPathBytes, time);
  problem = paths.problem;
  std::istringstream lines(paths.text);
  std::string top, git, common, more;
  std::getline(lines, top);
  std::getline(lines, git);
  std::getline(lines, common);
  if (problem.empty() && (common.empty() || std::getline(lines, more)))
    problem = "git rev-parse printed other lines than expected";
  return {top, git, call.directory / common};
}

bool is_same(const fs::path& one, const fs::path& other) {
  std::error_code failed;
  return fs::equivalent(one, other, failed);
}

// Of the files with which git finds objects.
bool has_links(const fs::path& directory) {
  const auto is_link = [](const fs::directory_entry& entry) { return entry.is_symlink(); };
  for (const char* name : {"HEAD", "packed-refs", "refs", "objects"})
    if (fs::is_symlink(directory / name)) return true;
  return std::ranges::any_of(fs::directory_iterator(directory / "objects"), is_link) ||
         std::ranges::any_of(fs::recursive_directory_iterator(directory / "refs"), is_link);
}

// Whether ".git" was not written to make another repository, whose files the diff would contain, that
// of this working tree. Git directories elsewhere have to name it: those of linked working trees in
// `gitdir`, those of submodules with core.worktree.
bool is_repository_of_tree(const Repository& found, bool has_worktree_setting) {
  const auto dot_git = found.working_tree / ".git";
  const auto& directory = found.git_directory;
  const auto type = fs::symlink_status(dot_git).type();
  const bool is_linked_tree = !is_same(directory, found.common_directory);
  if (has_links(found.common_directory)) return false;
  if (type == fs::file_type::directory) return is_same(dot_git, directory) && !is_linked_tree;
  if (type != fs::file_type::regular) return false;
  if (!is_linked_tree) return has_worktree_setting;
  auto named = read_file(directory / "gitdir", kMaxPathBytes);
  if (named.ends_with('\n')) named.pop_back();
  return is_same(directory / ".." / "..", found.common_directory) &&
         is_same(directory / named, dot_git);
}

std::string verify_repository(const GitCall& call, const Words& settings, GitTime& time) {
  std::string problem;
  const auto found = find_repository(call, time, problem);
  if (!problem.empty()) return problem;
  const bool has_worktree_setting = std::ranges::count(settings, "core.worktree") != 0;
  const bool is_here = is_same(found.working_tree, find_working_tree(call.directory));
  if (!is_here && has_worktree_setting)
    return "core.worktree of the repository names another directory";
  if (!is_here || !is_repository_of_tree(found, has_worktree_setting))
    return ".git leads to another repository, which does not name this working tree";
  return "";
}

// "filter.lfs.clean" -> "filter.lfs"
std::set<std::string> filters_of(const Words& keys) {
  std::set<std::string> filters;
  for (const auto& key : keys) {
    const auto dot = key.rfind('.');
    if (key.starts_with(kFilterSection) && dot >= kFilterSection.size())
      filters.insert(key.substr(0, dot));
  }
  return filters;
}

// The options that turn off each filter.
Words without_filters(const Words& keys, std::string& problem) {
  Words options;
  for (const auto& filter : filters_of(keys)) {
    if (filter.find('=') != std::string::npos)  // `-c` would set another key
      problem = fmt::format("the name of '{}' contains '='", printable(filter));
    for (const char* member : {".clean=", ".process=", ".required=false"}) {
      options.emplace_back("-c");
      options.push_back(filter + member);
    }
  }
  return options;
}

Words diff_arguments(const Words& filter_options) {
  Words words = {"--no-optional-locks"};
  for (const char* setting :
       {"core.fsmonitor=false", "core.quotePath=true", "core.abbrev=auto", "diff.relative=false",
        "diff.autoRefreshIndex=true", "diff.suppressBlankEmpty=false"}) {
    words.emplace_back("-c");
    words.emplace_back(setting);
  }
  words.insert(words.end(), filter_options.begin(), filter_options.end());
  for (const char* word :
       {"diff", "--no-color", "--no-ext-diff", "--no-textconv", "--ignore-submodules=dirty",
        "--submodule=short", "--src-prefix=a/", "--dst-prefix=b/", "-U3", "--inter-hunk-context=0",
        "--diff-algorithm=myers", "--indent-heuristic", "--find-renames=50%", "-l1000",
        "-O/dev/null", "HEAD", "--"})
    words.emplace_back(word);
  return words;
}

}  // namespace

GitDiff run_git_diff(const GitCall& call, const std::stop_token& stop) try {
  GitTime time(call.timeout, stop);
  std::string problem;
  const auto settings = read_settings(call, time, problem);
  const auto filter_options = without_filters(settings, problem);
  if (problem.empty()) problem = verify_repository(call, settings, time);
  if (!problem.empty()) return {.problem = problem};
  auto diff = run_git(call, diff_arguments(filter_options), "diff", kMaxDiffBytes, time);
  if (diff.is_too_long) diff.problem = "the diff has more than 1 MiB";
  return {.text = diff.problem.empty() ? std::move(diff.text) : "", .problem = diff.problem};
} catch (const Error& error) {
  return {.problem = error.what()};
} catch (const fs::filesystem_error& error) {
  return {.problem = error.what()};
}

}  // namespace lockstep::tracking
