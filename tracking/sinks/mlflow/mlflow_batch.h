// Metrics, params and tags to log to one run, split into requests within MLflow's limits. Sending
// a batch again is safe: a metric with the same key, time, step and value, or a param or tag with
// the same value, is stored once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

class MlflowBatch {
 public:
  // `name` must be a valid MLflow name. NaN is stored as NaN, infinities as the largest finite
  // doubles.
  void add_metric(std::string_view name, double value, int64_t time_ms, int64_t step);
  void add_param(std::string_view name, const std::string& value);
  void add_tag(std::string_view name, const std::string& value);

  // Drops the metrics of steps after `step`.
  void rewind(int64_t step);

  // Sends and clears the batch. Items that the server rejects are found by bisection and skipped;
  // returns their names. Throws what the client throws; the batch must then be rebuilt.
  std::vector<std::string> send(MlflowClient& client, const std::string& run);

 private:
  struct Item {
    std::string name, json;
    int64_t step = 0;
  };
  using Items = std::vector<Item>;

  std::vector<Item> metrics_, params_, tags_;
};

}  // namespace lockstep::tracking
