// The report of a launch as JSON, so that the coordinator can tell what happened on every node.
#pragma once

#include <nlohmann/json.hpp>

#include "launch/report/launch_report.h"

namespace lockstep {

nlohmann::json to_json(const ErrorReport& error);
ErrorReport parse_error_report(const nlohmann::json& json);

// What every node should know: the causes, not how each rank of a large job ended.
LaunchReport outline_of(LaunchReport report);

// Workers that ended well or were stopped are told without their output.
nlohmann::json to_json(const LaunchReport& report);
// Throws Environment.
LaunchReport parse_report(const nlohmann::json& json);

}  // namespace lockstep
