#include "core/findings.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "lockstep/error.h"

namespace lockstep {

std::string line_of_finding(const Finding& finding) {
  const auto* mark = finding.health == Health::Good      ? "ok"
                     : finding.health == Health::Warning ? "warning"
                                                         : "PROBLEM";
  return fmt::format("{:<9}{:<17}{}\n", mark, finding.what, finding.text);
}

std::string json_of_findings(const std::vector<Finding>& findings) {
  constexpr const char* kNames[] = {"good", "warning", "problem"};
  auto list = nlohmann::ordered_json::array();
  for (const auto& [what, health, text] : findings)
    list.push_back({{"what", what}, {"health", kNames[static_cast<int>(health)]}, {"text", text}});
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

int exit_code_of_findings(const std::vector<Finding>& findings) {
  const bool problem = std::ranges::any_of(
      findings, [](const Finding& finding) { return finding.health == Health::Problem; });
  return problem ? static_cast<int>(ErrorKind::Environment) : 0;
}

}  // namespace lockstep
