// Where a sink that writes one file writes it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "tracking/run_info.h"

namespace lockstep {

// `configured` with the id of the entry for every "{id}", or `otherwise` when nothing is
// configured.
inline std::filesystem::path sink_file(const std::optional<std::string>& configured,
                                       const std::filesystem::path& otherwise,
                                       const RunInfo& info) {
  if (!configured) return otherwise;
  constexpr std::string_view kId = "{id}";
  auto path = *configured;
  for (auto at = path.find(kId); at != std::string::npos; at = path.find(kId, at + info.id.size()))
    path.replace(at, kId.size(), info.id);
  return path;
}

}  // namespace lockstep
