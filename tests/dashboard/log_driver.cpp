// Writes event logs on the commands from its standard input, one JSON object per line, and prints
// "ok" when each is in the log. Tests can thus write real logs step by step, and kill the writer.
//   {"op": "run", "dir": D, "name": N, "world_size": W, "config": {...}}
//   {"op": "open", "dir": D, "rank": R}                      (or "node": K)
//   {"op": "scalars", "log": L, "step": S, "time": T, "epoch": E, "values": {NAME: VALUE}}
//   {"op": "many", "log": L, "metrics": [NAME], "from": S, "to": S, "scale": X}
//         value = scale * sin(step * (metric + 1) / 100) + step, time = 1000 + step,
//         epoch = step / 100
//   {"op": "console", "log": L, "rank": R, "error": B, "line": T}
//   {"op": "text" | "alert" | "image" | "clip" | "histogram" | "table" | "rewind" | "summary",
//    "log": L, ...}
//   {"op": "end", "log": L, "state": "finished", "exit": 0, "reason": T}
// L: the index of an opened log, from 0. The values "nan", "inf" and "-inf" are also numbers.
#include <cmath>
#include <iostream>
#include <limits>
#include <memory>

#include "lockstep/error.h"
#include "lockstep/tracker.h"
#include "tracking/log/event_log_writer.h"
#include "tracking/runs/run_directory.h"
#include "tracking/sinks/png.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

using Logs = std::vector<std::unique_ptr<tracking::EventLogWriter>>;

double number(const Json& json) {
  if (json == "nan") return std::nan("");
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  return json.get<double>();
}

RunInfo info_of(const Json& op) {
  const auto dir = std::filesystem::path(op["dir"].get<std::string>());
  const auto id = dir.filename().string();
  const auto world_size = op.value("world_size", 1), rank = op.value("rank", 0);
  RunInfo info{.id = op.value("id", id),
               .name = op.value("name", id),
               .job_id = id,
               .rank = rank,
               .world_size = world_size,
               .node_rank = op.value("node", 0),
               .local_rank = rank,
               .host = "node1",
               .pid = 4711,
               .created = op.value("created", 1000.0),
               .command = {"lockstep-trainer", "configs/mnist.yaml"},
               .planned = {.steps = op.value("planned_steps", int64_t{0}),
                           .epochs = op.value("planned_epochs", 0.0)}};
  if (op.contains("group")) info.group = op["group"].get<std::string>();
  return info;
}

void open(const Json& op, Logs& logs) {
  const std::filesystem::path dir = op["dir"].get<std::string>();
  const auto path = op.contains("node") ? tracking::node_log_path(dir, op["node"].get<int>())
                                        : tracking::event_log_path(dir, op["rank"].get<int>());
  auto log = std::make_unique<tracking::EventLogWriter>(
      path, op.value("max_bytes", tracking::kMaxSegmentBytes));
  log->identity(info_of(op));
  if (op.contains("config")) log->config(op["config"]);
  logs.push_back(std::move(log));
}

void log_scalars(const Json& op, tracking::EventLogWriter& log) {
  std::vector<Metric> metrics;
  for (const auto& [name, value] : op["values"].items()) metrics.push_back({name, number(value)});
  log.scalars({.step = op["step"].get<int64_t>(),
               .time = op.value("time", 1000.0),
               .epoch = op.value("epoch", 0.0),
               .values = metrics});
}

void log_many(const Json& op, tracking::EventLogWriter& log) {
  const auto names = op["metrics"].get<std::vector<std::string>>();
  const auto scale = op.value("scale", 1.0);
  std::vector<Metric> metrics(names.size());
  for (auto step = op["from"].get<int64_t>(); step < op["to"].get<int64_t>(); ++step) {
    const auto at = static_cast<double>(step);
    for (size_t i = 0; i < names.size(); ++i)
      metrics[i] = {names[i], scale * std::sin(at * static_cast<double>(i + 1) / 100) + at};
    log.scalars({.step = step, .time = 1000 + at, .epoch = at / 100, .values = metrics});
  }
}

Moment moment(const Json& op) {
  return {.name = op["name"].get<std::string>(),
          .step = op.value("step", int64_t{0}),
          .time = op.value("time", 1000.0),
          .epoch = op.value("epoch", 0.0)};
}

void log_other(const Json& op, const std::string& kind, tracking::EventLogWriter& log) {
  if (kind == "text") {
    log.text({.time = op.value("time", 1000.0),
              .level = static_cast<TextLevel>(op.value("level", 1)),
              .line = op["line"].get<std::string>()});
  } else if (kind == "console") {
    log.console({.time = op.value("time", 1000.0),
                 .rank = op.value("rank", 0),
                 .is_error = op.value("error", false),
                 .line = op["line"].get<std::string>()});
  } else if (kind == "alert") {
    log.alert({.time = op.value("time", 1000.0),
               .title = op["title"].get<std::string>(),
               .text = op.value("text", ""),
               .step = op.value("step", int64_t{0})});
  } else if (kind == "image") {
    const std::vector<uint8_t> pixels(size_t{4 * 3}, op.value("gray", uint8_t{128}));
    log.image({.at = moment(op),
               .width = 4,
               .height = 3,
               .caption = op.value("caption", ""),
               .png = tracking::encode_png(4, 3, 1, pixels)});
  } else if (kind == "clip") {
    log.clip({.at = moment(op),
              .type = op["type"].get<std::string>(),
              .caption = op.value("caption", ""),
              .bytes = op["bytes"].get<std::string>()});
  } else if (kind == "histogram") {
    log.histogram({.at = moment(op),
                   .edges = op["edges"].get<std::vector<double>>(),
                   .counts = op["counts"].get<std::vector<double>>()});
  } else if (kind == "table") {
    log.table({.at = moment(op),
               .columns = op["columns"].get<std::vector<std::string>>(),
               .rows = op["rows"]});
  } else if (kind == "rewind") {
    log.rewind(op["step"].get<int64_t>());
  } else if (kind == "summary") {
    log.summary(op["values"]);
  } else if (kind == "end") {
    log.end({.state = parse_state(op.value("state", "finished")).value(),
             .exit_code = op.value("exit", 0),
             .reason = op.value("reason", "")});
    log.close();
  } else {
    throw config_error("unknown op " + kind);
  }
}

void perform(const Json& op, Logs& logs) {
  const auto kind = op["op"].get<std::string>();
  if (kind == "run")
    return create_run_directory(op["dir"].get<std::string>(), info_of(op),
                                op.value("config", Json::object()));
  if (kind == "open") return open(op, logs);
  auto& log = *logs.at(op["log"].get<size_t>());
  if (kind == "scalars") return log_scalars(op, log);
  if (kind == "many") return log_many(op, log);
  log_other(op, kind, log);
}

}  // namespace

int main() try {
  Logs logs;
  for (std::string line; std::getline(std::cin, line);) {
    perform(Json::parse(line), logs);
    std::cout << "ok" << std::endl;
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return 70;
}
