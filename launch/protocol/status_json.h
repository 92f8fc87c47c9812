// What a rank is doing as JSON, so that the coordinator can tell who keeps the others waiting.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>

#include "launch/hangs/rank_view.h"

namespace lockstep {

nlohmann::json to_json(const RankView& view);
// nullopt: not the JSON of a view.
std::optional<RankView> parse_rank_view(const nlohmann::json& json);

}  // namespace lockstep
