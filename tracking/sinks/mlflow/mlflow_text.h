// How names and values of ours become those of MLflow.
//
// Names (of metrics, params and tags) have ASCII letters, digits, "_", "-", ".", " ", ":" and "/".
// Every other character becomes one "_". MLflow takes names for paths: a part that is empty, "." or
// ".." has "_" for each of its dots, or one. A name of more than 250 bytes is cut, and "-" with the
// CRC-32C of the whole name (8 hex digits) is appended.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

inline constexpr size_t kMlflowParamBytes = 6000;
inline constexpr size_t kMlflowTagBytes = 5000;  // older servers take no more

std::string mlflow_name(std::string_view name);

// The names of a run's metrics. Two of ours never become one of MLflow's: the second one gets the
// checksum of its own name behind it.
class MlflowMetricNames {
 public:
  // `state`: of state(), or null.
  explicit MlflowMetricNames(const Json& state);

  const std::string& of(std::string_view name);

  // The changed names, MLflow's to ours, so that a later object changes them alike.
  Json state() const;

 private:
  std::map<std::string, std::string, std::less<>> names_;   // ours to MLflow's
  std::map<std::string, std::string, std::less<>> owners_;  // MLflow's to ours
};

// A metric of the node under the name and in the unit of MLflow's "System metrics" tab, where it
// has an equivalent; any other one as it is. "system/node-1/cpu_percent" keeps its node.
std::pair<std::string, double> mlflow_system_metric(std::string_view name, double value);

// At most `longest` bytes of well-formed UTF-8; a longer one ends with " ... (cut)".
std::string mlflow_value(std::string_view text, size_t longest);

// The run's config as params: maps are flattened ("optimizer.lr"), lists are JSON unless they hold
// maps ("layers.0.size"). Without the section "tracking": who records what is no
// hyperparameter.
std::vector<std::pair<std::string, std::string>> mlflow_params(const Json& config);

}  // namespace lockstep::tracking
