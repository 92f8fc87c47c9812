#include "tracking/runs/code_state.h"

#include <fmt/format.h>

#include <sstream>

#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/artifacts/sha256.h"

namespace lockstep::tracking {
namespace {

namespace fs = std::filesystem;

constexpr size_t kShownSumDigits = 8;
constexpr auto kAlteredDiff =
    "bytes that are not UTF-8 are replaced in the diff, so that it may not apply";
// JSON needs up to six bytes for a byte of the diff.
constexpr size_t kMaxCodeFileBytes = 8 * kMaxDiffBytes;

fs::path code_path(const fs::path& run_dir) { return run_dir / "code.json"; }

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
  if (git->commit.empty()) {
    state.problem = "the repository has no commit";
    return state;
  }
  auto diff = run_git_diff(call, stop);
  state.diff = std::move(diff.text);
  state.problem = std::move(diff.problem);
  if (!state.problem.empty()) return state;
  if (find_invalid_utf8(state.diff) != std::string::npos) state.note = kAlteredDiff;
  state.sha256 = sha256_of(state.diff);
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
  if (!fs::is_regular_file(code_path(run_dir), ignored) || !has_code_state_of_start(run_dir))
    return std::nullopt;
  const auto json = parse_json(read_file(code_path(run_dir), kMaxCodeFileBytes));
  if (!json.is_object()) return std::nullopt;
  CodeState state{.git = {.commit = text_of(json, "commit"), .branch = text_of(json, "branch")},
                  .diff = text_of(json, "diff"),
                  .sha256 = text_of(json, "sha256"),
                  .problem = text_of(json, "problem"),
                  .note = text_of(json, "note")};
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
  if (!state.note.empty()) json["note"] = state.note;
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
