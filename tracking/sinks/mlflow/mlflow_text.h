// Converts names and values to what MLflow accepts.
//
// Names (of metrics, params and tags) have ASCII letters, digits, "_", "-", ".", " ", ":" and "/".
// Every other character is replaced by "_". MLflow treats names as paths: an empty part becomes
// "_", and the dots of "." and ".." become "_". A name of more than 250 bytes is truncated, and "-"
// and the CRC-32C of the whole name (8 hex digits) are appended.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

inline constexpr size_t kMlflowParamBytes = 6000;
inline constexpr size_t kMlflowTagBytes = 5000;  // the limit of older servers

std::string mlflow_name(std::string_view name);

// Maps the metric names of a run to MLflow's. The mapping is one-to-one: on a collision, the
// checksum of the second name is appended to it.
class MlflowMetricNames {
 public:
  // `state` is the result of state(), or null.
  explicit MlflowMetricNames(const Json& state);

  const std::string& of(std::string_view name);

  // The changed names, MLflow's to ours; a later object restores the mapping from it.
  Json state() const;

 private:
  std::map<std::string, std::string, std::less<>> names_;   // ours to MLflow's
  std::map<std::string, std::string, std::less<>> owners_;  // MLflow's to ours
};

// Converts a system metric to the name and unit of MLflow's "System metrics" tab if it has an
// equivalent there; otherwise returns it unchanged. "system/node-1/cpu_percent" keeps its node.
std::pair<std::string, double> mlflow_system_metric(std::string_view name, double value);

// Returns valid UTF-8 of at most `max_bytes`; truncated text ends with " ... (cut)".
std::string mlflow_value(std::string_view text, size_t max_bytes);

// The run's config as params: maps are flattened ("optimizer.lr"), lists are JSON unless they hold
// maps ("layers.0.size"). The section "tracking" is excluded: it holds no hyperparameters.
std::vector<std::pair<std::string, std::string>> mlflow_params(const Json& config);

}  // namespace lockstep::tracking
