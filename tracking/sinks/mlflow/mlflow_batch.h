// What is to be logged to one run, sent in as many requests as MLflow's limits ask for. Repeating a
// batch is safe: a metric with the same key, time, step and value, or a param or tag with the same
// value, is stored once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "tracking/sinks/mlflow/mlflow_client.h"

namespace lockstep::tracking {

class MlflowBatch {
 public:
  // `name`: ours, which is a name of MLflow's. NaN is stored as such, infinities as the largest
  // doubles.
  void add_metric(std::string_view name, double value, int64_t time_ms, int64_t step);
  void add_param(std::string_view name, const std::string& value);
  void add_tag(std::string_view name, const std::string& value);

  // Drops the metrics of a later step.
  void rewind(int64_t step);

  // Empties the batch. What the server does not take is found by halving its request, and left out;
  // returns the names. Throws what the client throws; the batch is then to be built anew.
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
