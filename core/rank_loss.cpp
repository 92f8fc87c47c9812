#include "core/rank_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace lockstep {
namespace {

std::vector<std::string> names_of_spares(const RankLoss& loss) {
  std::vector<std::string> names;
  for (size_t i = 0; i < loss.spares.size(); ++i)
    names.push_back(i < loss.spare_nodes.size()
                        ? fmt::format("{} of node {}", loss.spares[i], loss.spare_nodes[i])
                        : fmt::format("{}", loss.spares[i]));
  return names;
}

}  // namespace

std::string lost_text(const RankLoss& loss) {
  if (loss.ranks.empty())
    return fmt::format("{} rank{} joined", loss.spares.size(), loss.spares.size() == 1 ? "" : "s");
  std::vector<std::string> parts;
  for (const auto& lost : loss.ranks)
    parts.push_back(fmt::format("rank {} (of {}) {} {}", lost.rank, loss.before,
                                lost.has_left ? "left after" : "was lost,", lost.how));
  return fmt::format("{}", fmt::join(parts, "; "));
}

std::string describe(const RankLoss& loss) {
  std::string spares;
  if (!loss.spares.empty())
    spares = fmt::format(", with spare{} {}", loss.spares.size() == 1 ? "" : "s",
                         fmt::join(names_of_spares(loss), ", "));
  return fmt::format("{}; continued after step {} with {} rank{}{}", lost_text(loss), loss.step,
                     loss.after, loss.after == 1 ? "" : "s", spares);
}

Json to_json(const RankLoss& loss) {
  auto ranks = Json::array();
  for (const auto& lost : loss.ranks) {
    ranks.push_back({{"rank", lost.rank}, {"how", lost.how}});
    if (lost.has_left) ranks.back()["has_left"] = true;
  }
  Json json = {
      {"group", loss.group},       {"step", loss.step},        {"ranks_before", loss.before},
      {"ranks_after", loss.after}, {"lost", std::move(ranks)}, {"spares", loss.spares},
      {"time", loss.time}};
  if (!loss.spare_nodes.empty()) json["spare_nodes"] = loss.spare_nodes;
  return json;
}

std::optional<RankLoss> rank_loss_from_json(const Json& json) {
  try {
    RankLoss loss{.group = json.value("group", int64_t{0}),
                  .step = json.at("step").get<int64_t>(),
                  .before = json.at("ranks_before").get<int>(),
                  .after = json.at("ranks_after").get<int>(),
                  .ranks = {},
                  .spares = json.at("spares").get<std::vector<int>>(),
                  .spare_nodes = json.value("spare_nodes", std::vector<int>()),
                  .time = json.value("time", 0.0)};
    for (const auto& lost : json.at("lost"))
      loss.ranks.push_back({lost.at("rank").get<int>(), lost.at("how").get<std::string>(),
                            lost.value("has_left", false)});
    if (loss.is_empty()) return std::nullopt;
    return loss;
  } catch (const Json::exception&) {
    return std::nullopt;
  }
}

}  // namespace lockstep
