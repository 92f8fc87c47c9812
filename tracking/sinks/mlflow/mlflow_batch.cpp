#include "tracking/sinks/mlflow/mlflow_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

// Limits of one request (mlflow/utils/validation.py); the size leaves room for the envelope.
constexpr size_t kMlflowMaxMetrics = 1000;
constexpr size_t kMlflowMaxParams = 100;
constexpr size_t kMlflowMaxBytes = 900'000;

std::string mlflow_json_text(std::string_view text) {
  return Json(text).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string mlflow_json_number(double value) {
  if (std::isnan(value)) return "\"NaN\"";
  if (std::isinf(value)) return value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
  return fmt::format("{}", value);
}

std::string mlflow_json_pair(std::string_view key, const std::string& value) {
  return fmt::format(R"({{"key":{},"value":{}}})", mlflow_json_text(key), mlflow_json_text(value));
}

// Sends items of one kind.
template <class Item>
class BatchSender {
 public:
  BatchSender(MlflowClient& client, const std::string& run, const char* kind,
              std::vector<std::string>& rejected)
      : client_(client), run_(run), kind_(kind), rejected_(rejected) {}

  void send_all(std::span<const Item> items, size_t max_items) {
    while (!items.empty()) {
      size_t count = 0, bytes = 0;
      while (count < std::min(items.size(), max_items) &&
             (count == 0 || bytes + items[count].json.size() < kMlflowMaxBytes))
        bytes += items[count++].json.size() + 1;
      send(items.first(count));
      items = items.subspan(count);
    }
  }

 private:
  void send(std::span<const Item> items) {
    if (client_.log_batch(body(items))) return;
    if (!run_accepts_ && !client_.log_batch(body({})))
      throw config_error(
          fmt::format("{}: run {} accepts no records; was it deleted?", client_.name(), run_));
    run_accepts_ = true;
    if (items.size() == 1) return rejected_.push_back(items.front().name);
    send(items.first(items.size() / 2));
    send(items.subspan(items.size() / 2));
  }

  std::string body(std::span<const Item> items) const {
    std::string list;
    for (const auto& item : items) list += (list.empty() ? "" : ",") + item.json;
    return fmt::format(R"({{"run_id":{},"{}":[{}]}})", mlflow_json_text(run_), kind_, list);
  }

  MlflowClient& client_;
  const std::string& run_;
  const char* kind_;
  std::vector<std::string>& rejected_;
  bool run_accepts_ = false;
};

}  // namespace

void MlflowBatch::add_metric(std::string_view name, double value, int64_t time_ms, int64_t step) {
  metrics_.push_back(
      {.name = std::string(name),
       .json = fmt::format(R"({{"key":{},"value":{},"timestamp":{},"step":{}}})",
                           mlflow_json_text(name), mlflow_json_number(value), time_ms, step),
       .step = step});
}

void MlflowBatch::add_param(std::string_view name, const std::string& value) {
  params_.push_back({.name = std::string(name), .json = mlflow_json_pair(name, value)});
}

void MlflowBatch::add_tag(std::string_view name, const std::string& value) {
  tags_.push_back({.name = std::string(name), .json = mlflow_json_pair(name, value)});
}

void MlflowBatch::rewind(int64_t step) {
  std::erase_if(metrics_, [&](const Item& item) { return item.step > step; });
}

std::vector<std::string> MlflowBatch::send(MlflowClient& client, const std::string& run) {
  std::vector<std::string> rejected;
  const auto send_all = [&](const char* kind, Items& items, size_t max_items) {
    BatchSender<Item>(client, run, kind, rejected).send_all(items, max_items);
    items.clear();
  };
  send_all("params", params_, kMlflowMaxParams);
  send_all("tags", tags_, kMlflowMaxParams);
  send_all("metrics", metrics_, kMlflowMaxMetrics);
  return rejected;
}

}  // namespace lockstep::tracking
