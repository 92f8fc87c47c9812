#include "launch/protocol/status_json.h"

#include <array>
#include <limits>

#include "launch/protocol/message_fields.h"

namespace lockstep {
namespace {

constexpr int64_t kMostCounted = INT64_MAX;

template <class Number>
std::array<Number, 2> pair_of(const MessageFields& fields, const char* name) {
  const auto numbers = fields.numbers<Number>(name, 0, std::numeric_limits<Number>::max());
  if (numbers.size() != 2) throw environment_error("a status with something that is no pair");
  return {numbers[0], numbers[1]};
}

Phase parse_phase(const MessageFields& fields) {
  return Phase{
      static_cast<uint32_t>(fields.number("phase", 0, static_cast<int>(Phase::Finishing)))};
}

RankView parse_view(const MessageFields& fields) {
  RankView view{.host = fields.text("host")};
  auto& progress = view.progress;
  progress.rank = fields.number("rank", 0, INT32_MAX);
  progress.pid = fields.integer("pid", 0, kMostCounted);
  const auto state = fields.text("state");
  view.process_state = state.empty() ? '?' : state.front();
  progress.phase = parse_phase(fields);
  progress.phase_age_s = fields.real("phase_age");
  const auto step = pair_of<int64_t>(fields, "step");
  progress.step = step[0];
  progress.total_steps = step[1];
  progress.longest_step_s = fields.real("longest_step");
  progress.operations = static_cast<uint64_t>(fields.integer("operations", 0, kMostCounted));
  progress.in_operation = fields.flag("in_operation");
  progress.operation = fields.text("operation");
  progress.detail = fields.text("detail");
  const auto buckets = pair_of<int64_t>(fields, "buckets");
  progress.buckets_started = static_cast<uint64_t>(buckets[0]);
  progress.buckets_finished = static_cast<uint64_t>(buckets[1]);
  view.bucket = fields.text("bucket");
  progress.idle_s = fields.real("idle");
  const auto limits = pair_of<double>(fields, "limits");
  progress.warn_after_s = limits[0];
  progress.timeout_s = limits[1];
  if (fields.has("stacks")) view.stacks = fields.text("stacks");
  return view;
}

}  // namespace

nlohmann::json to_json(const RankView& view) {
  const auto& progress = view.progress;
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
                         {"operation", progress.operation},
                         {"detail", progress.detail},
                         {"buckets", {progress.buckets_started, progress.buckets_finished}},
                         {"bucket", view.bucket},
                         {"idle", progress.idle_s},
                         {"limits", {progress.warn_after_s, progress.timeout_s}}};
  if (!view.stacks.empty()) json["stacks"] = view.stacks;
  return json;
}

std::optional<RankView> parse_rank_view(const nlohmann::json& json) {
  try {
    return parse_view(MessageFields(json));
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace lockstep
