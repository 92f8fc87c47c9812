#include "launch/rank_view.h"

#include <fmt/format.h>

#include <fstream>
#include <sstream>

#include "core/printable.h"

namespace lockstep {
namespace {

constexpr size_t kLongestText = 200, kLongestStacks = 4000;

// The state stands behind the command, which may hold anything but ends with the last ')'.
char process_state(int64_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);
  const auto end = text.rfind(')');
  return end != std::string::npos && end + 2 < text.size() ? text[end + 2] : '?';
}

// Buckets are reduced in the order of their names.
std::string pending_bucket(const ProgressSnapshot& progress) {
  if (!progress.in_operation || progress.buckets_started <= progress.buckets_finished) return {};
  std::istringstream lines(progress.bucket_names);
  std::string line;
  for (uint64_t i = 0; i <= progress.buckets_finished; ++i)
    if (!std::getline(lines, line)) return {};
  return line;
}

}  // namespace

std::optional<RankView> view_rank(const ProgressPage& page, int rank, const std::string& host,
                                  int64_t pid) {
  RankView view{.progress = page.snapshot(), .host = host};
  if (view.progress.pid == 0) return std::nullopt;
  view.process_state = process_state(pid);
  view.progress.rank = rank;
  view.progress.pid = pid;
  view.bucket = pending_bucket(view.progress);
  return view;
}

nlohmann::json to_json(const RankView& view) {
  const auto& progress = view.progress;
  const auto text = [](const std::string& s) { return printable(s, kLongestText); };
  nlohmann::json json = {{"rank", progress.rank},
                         {"pid", progress.pid},
                         {"host", view.host},
                         {"state", std::string(1, view.process_state)},
                         {"phase", static_cast<int>(progress.phase)},
                         {"phase_age", progress.phase_age_s},
                         {"step", {progress.step, progress.total_steps}},
                         {"longest_step", progress.longest_step_s},
                         {"operations", progress.operations},
                         {"in_operation", progress.in_operation},
                         {"operation", text(progress.operation)},
                         {"detail", text(progress.detail)},
                         {"buckets", {progress.buckets_started, progress.buckets_finished}},
                         {"bucket", text(view.bucket)},
                         {"idle", progress.idle_s},
                         {"limits", {progress.warn_after_s, progress.timeout_s}}};
  if (!view.stacks.empty()) {
    const auto broken = find_invalid_utf8(view.stacks);
    json["stacks"] = view.stacks.substr(0, std::min({view.stacks.size(), broken, kLongestStacks}));
  }
  return json;
}

std::optional<RankView> rank_view_from_json(const nlohmann::json& json) {
  try {
    RankView view{.host = json.at("host")};
    auto& progress = view.progress;
    progress.rank = json.at("rank");
    progress.pid = json.at("pid");
    view.process_state = json.at("state").get<std::string>().at(0);
    const auto phase = json.at("phase").get<uint32_t>();
    if (phase > static_cast<uint32_t>(Phase::Finishing)) return std::nullopt;
    progress.phase = Phase{phase};
    progress.phase_age_s = json.at("phase_age");
    progress.step = json.at("step").at(0);
    progress.total_steps = json.at("step").at(1);
    progress.longest_step_s = json.at("longest_step");
    progress.operations = json.at("operations");
    progress.in_operation = json.at("in_operation");
    progress.operation = json.at("operation");
    progress.detail = json.at("detail");
    progress.buckets_started = json.at("buckets").at(0);
    progress.buckets_finished = json.at("buckets").at(1);
    view.bucket = json.at("bucket");
    progress.idle_s = json.at("idle");
    progress.warn_after_s = json.at("limits").at(0);
    progress.timeout_s = json.at("limits").at(1);
    view.stacks = json.value("stacks", "");
    return view;
  } catch (const std::exception&) {
    return std::nullopt;
  }
}

}  // namespace lockstep
