#include "launch/protocol/group_messages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace lockstep::launch {
namespace {

constexpr std::array kRequestKinds = {"broken",   "changing", "leaving",
                                      "replaced", "excluded", "quitting"};
constexpr std::array kAnswerKinds = {"join", "wait",    "end",     "refused",
                                     "lost", "overdue", "invited", "differs"};
constexpr int kMaxPort = 65535;
constexpr int64_t kMaxPatienceMs = int64_t{1} << 40;
constexpr size_t kMaxHowBytes = 512;

// Of ranks that were lost in the same way, as with their node, only the first has the text: every
// worker receives all of them.
void shorten(RankLoss& loss) {
  std::string previous;
  for (auto& lost : loss.ranks) {
    lost.how.resize(std::min(lost.how.size(), kMaxHowBytes));
    if (lost.how == previous)
      lost.how.clear();
    else
      previous = lost.how;
  }
}

void lengthen(RankLoss& loss) {
  std::string previous;
  for (auto& lost : loss.ranks) {
    if (lost.how.empty()) lost.how = previous;
    previous = lost.how;
  }
}

}  // namespace

std::string encode(const GroupRequest& request) {
  return fmt::format("{} {} {} {:.6g} {} {}", kRequestKinds[static_cast<size_t>(request.kind)],
                     request.step, request.port, request.slowness, request.patience_ms,
                     request.inputs);
}

std::optional<GroupRequest> decode_group_request(const std::string& text) {
  const auto end = std::min(text.find(' '), text.size());
  const auto kind = std::ranges::find(kRequestKinds, text.substr(0, end));
  if (kind == kRequestKinds.end()) return std::nullopt;
  GroupRequest request;
  request.kind = static_cast<GroupRequest::Kind>(kind - kRequestKinds.begin());
  int read = 0;
  int64_t inputs = 0;
  if (std::sscanf(text.c_str() + end, " %ld %d %lf %ld %ld%n", &request.step, &request.port,
                  &request.slowness, &request.patience_ms, &inputs, &read) != 5 ||
      end + static_cast<size_t>(read) != text.size() || request.step < kNoState ||
      request.port < 0 || request.port > kMaxPort || !(request.slowness >= 0) ||
      !std::isfinite(request.slowness) || request.patience_ms < 0 ||
      request.patience_ms > kMaxPatienceMs || inputs < 0 || inputs > UINT32_MAX)
    return std::nullopt;
  request.inputs = static_cast<uint32_t>(inputs);
  return request;
}

std::string encode(const GroupAnswer& answer) {
  auto loss = answer.loss;
  shorten(loss);
  return Json{{"answer", kAnswerKinds[static_cast<size_t>(answer.kind)]},
              {"group", answer.group},
              {"rank", answer.rank},
              {"world_size", answer.world_size},
              {"local_rank", answer.local_rank},
              {"local_world_size", answer.local_world_size},
              {"host", answer.host},
              {"port", answer.port},
              {"loss", to_json(loss)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

GroupAnswer decode_group_answer(const std::string& text) {
  const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  try {
    const auto kind = std::ranges::find(kAnswerKinds, json.at("answer").get<std::string>());
    if (kind == kAnswerKinds.end()) return {};
    const auto group = json.at("group").get<int64_t>();
    if (group < 0 || group > kMaxGroup) return {};
    auto loss = rank_loss_from_json(json.at("loss")).value_or(RankLoss());
    lengthen(loss);
    return {.kind = static_cast<GroupAnswer::Kind>(kind - kAnswerKinds.begin()),
            .group = group,
            .rank = json.at("rank").get<int>(),
            .world_size = json.at("world_size").get<int>(),
            .local_rank = json.at("local_rank").get<int>(),
            .local_world_size = json.at("local_world_size").get<int>(),
            .host = json.at("host").get<std::string>(),
            .port = json.at("port").get<int>(),
            .loss = std::move(loss)};
  } catch (const Json::exception&) {
    return {};
  }
}

}  // namespace lockstep::launch
