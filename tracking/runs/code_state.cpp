#include "tracking/runs/code_state.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <sstream>

#include "core/system/child_process.h"
#include "core/system/durable_file.h"
#include "core/system/file_descriptor.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;
using DiffClock = std::chrono::steady_clock;

constexpr auto kTimeAfterStop = std::chrono::seconds(2);
constexpr int kDiffTickMs = 20;
constexpr size_t kShownSumDigits = 8;
// JSON needs up to six bytes for a byte of the diff.
constexpr size_t kMaxCodeFileBytes = 8 * kMaxDiffBytes;

fs::path code_path(const fs::path& run_dir) { return run_dir / "code.json"; }

ChildCommand git_diff(const GitCall& call, int output) {
  return {.program = "git",
          .arguments = {"--no-optional-locks", "-c", "core.fsmonitor=false", "-c",
                        "diff.relative=false", "diff", "--no-color", "--no-ext-diff",
                        "--no-textconv", "--ignore-submodules=dirty", "--src-prefix=a/",
                        "--dst-prefix=b/", "HEAD", "--"},
          .environment = call.environment,
          .stdout_fd = output,
          .directory = call.directory.string()};
}

// Reads until the end, the limit or the deadline, which `stop` brings forward. Returns the problem.
std::string read_diff(int input, const GitCall& call, const std::stop_token& stop,
                      std::string& diff) {
  auto deadline = DiffClock::now() + call.timeout;
  bool is_stopping = false;
  std::array<char, 65536> bytes{};
  while (true) {
    if (stop.stop_requested() && !std::exchange(is_stopping, true))
      deadline = std::min(deadline, DiffClock::now() + kTimeAfterStop);
    if (DiffClock::now() >= deadline) return "git diff did not end in time";
    pollfd request{.fd = input, .events = POLLIN, .revents = 0};
    if (::poll(&request, 1, kDiffTickMs) <= 0) continue;
    const auto count = ::read(input, bytes.data(), bytes.size());
    if (count == 0) return "";
    if (count < 0 && errno != EINTR) return "the output of git diff cannot be read";
    if (count > 0) diff.append(bytes.data(), static_cast<size_t>(count));
    if (diff.size() > kMaxDiffBytes) return "the diff has more than 1 MiB";
  }
}

// After its output ended.
std::string problem_of_exit(const ChildProcess& git) {
  const auto deadline = DiffClock::now() + kTimeAfterStop;
  while (DiffClock::now() < deadline) {
    if (const auto end = git.poll_exit())
      return end->signal || end->code != 0
                 ? fmt::format("git diff failed (exit code {})", end->signal.value_or(end->code))
                 : "";
    ::poll(nullptr, 0, kDiffTickMs);
  }
  return "git diff did not end in time";
}

std::string call_git(const GitCall& call, const std::stop_token& stop, std::string& diff) try {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) throw errno_error("cannot create a pipe");
  const FileDescriptor output(ends[0]);
  FileDescriptor input(ends[1]);
  const ChildProcess git(git_diff(call, input.get()));
  input.close();
  const auto problem = read_diff(output.get(), call, stop, diff);
  return problem.empty() ? problem_of_exit(git) : problem;
} catch (const Error& error) {
  return error.what();
}

// Adds the numbers of files and lines.
void count_lines(CodeState& state) {
  std::istringstream lines(state.diff);
  bool in_head = true;  // before the first hunk of a file, where "+++" and "---" are names
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("diff --git ")) {
      ++state.num_files;
      in_head = true;
    } else if (line.starts_with("@@")) {
      in_head = false;
    } else if (!in_head) {
      state.num_added += line.starts_with('+') ? 1 : 0;
      state.num_removed += line.starts_with('-') ? 1 : 0;
    }
  }
}

std::string text_of(const Json& json, const char* name) {
  const auto it = json.find(name);
  return it != json.end() && it->is_string() ? it->get<std::string>() : "";
}

}  // namespace

std::optional<CodeState> current_code_state(const GitCall& call, const std::stop_token& stop) {
  const auto git = read_git_state(call.directory);
  if (!git) return std::nullopt;
  CodeState state{.git = *git};
  state.problem =
      git->commit.empty() ? "the repository has no commit" : call_git(call, stop, state.diff);
  if (!state.problem.empty()) {
    state.diff.clear();
    return state;
  }
  Sha256 sum;
  sum.add(state.diff);
  state.sha256 = sum.hex();
  count_lines(state);
  return state;
}

void write_code_state(const fs::path& run_dir, const std::optional<CodeState>& state) {
  std::error_code ignored;
  if (!state) {
    fs::remove(code_path(run_dir), ignored);
    return;
  }
  auto json = summary_json(*state);
  if (state->problem.empty()) json["diff"] = state->diff;
  write_file_durably(code_path(run_dir),
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<CodeState> read_code_state(const fs::path& run_dir) try {
  std::error_code ignored;
  if (!fs::is_regular_file(code_path(run_dir), ignored)) return std::nullopt;
  const auto json = Json::parse(read_file(code_path(run_dir), kMaxCodeFileBytes), nullptr, false);
  if (!json.is_object()) return std::nullopt;
  CodeState state{.git = {.commit = text_of(json, "commit"), .branch = text_of(json, "branch")},
                  .diff = text_of(json, "diff"),
                  .sha256 = text_of(json, "sha256"),
                  .problem = text_of(json, "problem")};
  if (!is_sha256(state.sha256) && state.problem.empty()) return std::nullopt;
  count_lines(state);
  return state;
} catch (const Error&) {
  return std::nullopt;
}

bool has_code_state_of_start(const fs::path& run_dir) {
  std::error_code error;
  const auto code = fs::last_write_time(code_path(run_dir), error);
  if (error) return false;
  const auto start = fs::last_write_time(run_dir / "run.json", error);
  return !error && code >= start;
}

Json summary_json(const CodeState& state) {
  Json json = {{"commit", state.git.commit}, {"branch", state.git.branch}};
  if (!state.problem.empty())
    json["problem"] = state.problem;
  else
    json.update({{"sha256", state.sha256},
                 {"files", state.num_files},
                 {"added", state.num_added},
                 {"removed", state.num_removed}});
  return json;
}

std::string describe_changes(const CodeState& state) {
  if (!state.problem.empty()) return kUnknownChanges + state.problem;
  if (state.diff.empty()) return "none";
  return fmt::format("{} file{}, +{} -{} lines ({})", state.num_files,
                     state.num_files == 1 ? "" : "s", state.num_added, state.num_removed,
                     state.sha256.substr(0, kShownSumDigits));
}

}  // namespace lockstep::tracking
