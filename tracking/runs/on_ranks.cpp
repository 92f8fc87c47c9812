#include "tracking/runs/on_ranks.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/config/nearest_name.h"

namespace lockstep::tracking {
namespace {

using Kind = RankSelection::Kind;

const std::vector<std::pair<std::string, Kind>> kWords = {
    {"main", Kind::Main}, {"node", Kind::Node}, {"all", Kind::All}};

constexpr const char* kExpected = "main, node, all, or a list of ranks such as [0, 3]";

RankSelection read_list(const ConfigNode& node, const std::string& path) {
  RankSelection selection{.kind = Kind::List};
  if (node.items.empty()) throw bad_value(node, path, kExpected);
  for (size_t i = 0; i < node.items.size(); ++i) {
    const auto item_path = fmt::format("{}[{}]", path, i);
    const auto rank = ConfigValue<int64_t>::read(node.items[i], item_path);
    if (rank < 0 || rank > 1'000'000)
      throw bad_value(node.items[i], item_path, "a rank (0 or more)");
    if (std::ranges::count(selection.ranks, static_cast<int>(rank)))
      throw bad_value(node.items[i], item_path, "each rank at most once");
    selection.ranks.push_back(static_cast<int>(rank));
  }
  std::ranges::sort(selection.ranks);
  return selection;
}

std::string fill_in(const std::string& key, const RunInfo& process) {
  if (key == "name") return process.name;
  if (key == "id") return process.job_id;
  if (key == "rank") return std::to_string(process.rank);
  if (key == "node") return std::to_string(process.node_rank);
  if (key == "local_rank") return std::to_string(process.local_rank);
  throw config_error(fmt::format("tracking.run_name: unknown placeholder '{{{}}}'{}", key,
                                 suggest(key, {"name", "id", "rank", "node", "local_rank"})));
}

std::string expand(const std::string& pattern, const RunInfo& process) {
  std::string text;
  for (size_t at = 0; at < pattern.size();) {
    const auto open = pattern.find('{', at);
    text += pattern.substr(at, open - at);
    if (open == std::string::npos) break;
    const auto close = pattern.find('}', open);
    if (close == std::string::npos)
      throw config_error(fmt::format("tracking.run_name: '{}' has a '{{' without '}}'", pattern));
    text += fill_in(pattern.substr(open + 1, close - open - 1), process);
    at = close + 1;
  }
  return text;
}

}  // namespace

}  // namespace lockstep::tracking

namespace lockstep {

tracking::RankSelection ConfigValue<tracking::RankSelection>::read(const ConfigNode& node,
                                                                   const std::string& path) {
  if (node.kind == ConfigNode::Kind::List) return tracking::read_list(node, path);
  if (node.kind == ConfigNode::Kind::Scalar)
    for (const auto& [word, kind] : tracking::kWords)
      if (node.scalar == word) return {.kind = kind};
  throw bad_value(node, path, tracking::kExpected);
}

Json ConfigValue<tracking::RankSelection>::dump(const tracking::RankSelection& selection) {
  for (const auto& [word, kind] : tracking::kWords)
    if (selection.kind == kind) return word;
  return selection.ranks;
}

Json ConfigValue<tracking::RankSelection>::schema() {
  const Json words = {{"enum", {"main", "node", "all"}}};
  const Json list = {
      {"type", "array"}, {"items", {{"type", "integer"}, {"minimum", 0}}}, {"minItems", 1}};
  return {{"anyOf", Json::array({words, list})}};
}

}  // namespace lockstep

namespace lockstep::tracking {

bool is_logging(const RankSelection& selection, const RunInfo& process) {
  if (selection.kind == Kind::List && selection.ranks.back() >= process.world_size)
    throw config_error(
        fmt::format("tracking.ranks: rank {} does not exist: the job has {} (0 to {})",
                    selection.ranks.back(), process.world_size, process.world_size - 1));
  switch (selection.kind) {
    case Kind::Main: return is_main(process.rank);
    case Kind::Node: return process.local_rank == 0;
    case Kind::All: return true;
    case Kind::List: return std::ranges::count(selection.ranks, process.rank) > 0;
  }
  return false;
}

void verify_run_name(const std::string& run_name) { expand(run_name, {}); }

std::optional<RunInfo> decide(const RankSelection& selection, const RunInfo& process,
                              const EntryNaming& naming) {
  const bool logs = is_logging(selection, process);
  const auto name = expand(naming.run_name, process);
  if (!logs) return std::nullopt;
  auto entry = process;
  entry.group = naming.group;
  if (selection.kind == Kind::Main) return entry;
  entry.id = fmt::format("{}-rank-{}", process.job_id, process.rank);
  entry.name = name;
  entry.group = naming.group.value_or(process.job_id);
  entry.job_type = selection.kind == Kind::Node ? "node" : "rank";
  return entry;
}

int count_logging(const RankSelection& selection, int first, int count) {
  switch (selection.kind) {
    case Kind::Main: return first == 0 ? 1 : 0;
    case Kind::Node: return 1;
    case Kind::All: return count;
    case Kind::List: break;
  }
  return static_cast<int>(std::ranges::count_if(
      selection.ranks, [&](int rank) { return rank >= first && rank < first + count; }));
}

bool shows_progress(const RankSelection& selection, int rank) {
  return selection.kind == Kind::List ? rank == selection.ranks.front() : is_main(rank);
}

}  // namespace lockstep::tracking
