// The path of the output file of a sink.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "lockstep/config_value.h"
#include "lockstep/run_info.h"

namespace lockstep::tracking {

// Returns `configured` with "{id}" replaced by the id of the entry. If not set, returns `name` in
// the entry's directory next to `dir`, the sink's directory for its destination.
inline std::filesystem::path sink_file(const std::optional<std::string>& configured,
                                       const std::filesystem::path& dir, const char* name,
                                       const RunInfo& info) {
  if (!configured) return dir.parent_path() / info.id / name;
  constexpr std::string_view kId = "{id}";
  auto path = *configured;
  for (auto at = path.find(kId); at != std::string::npos; at = path.find(kId, at + info.id.size()))
    path.replace(at, kId.size(), info.id);
  return path;
}

// See Sink::destination().
inline Json file_destination(const std::optional<std::string>& configured) {
  return configured ? Json(std::filesystem::absolute(*configured).string()) : Json(nullptr);
}

}  // namespace lockstep::tracking
