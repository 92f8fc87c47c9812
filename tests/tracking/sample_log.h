// A small event log with one record of every type.
#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/system/durable_file.h"
#include "tracking/log/event_log_writer.h"

namespace lockstep::tracking {

inline RunInfo sample_info(const std::string& id = "mnist-1", int rank = 0, int world_size = 1) {
  return {.id = id,
          .name = "mnist",
          .job_id = id,
          .rank = rank,
          .world_size = world_size,
          .host = "node1",
          .pid = 42,
          .created = 1.7e9,
          .command = {"lockstep-trainer", "mnist.yaml"}};
}

inline void log_loss(EventLogWriter& log, int64_t step, double loss) {
  const std::array<Metric, 1> values = {{{"train/loss", loss}}};
  log.scalars(
      {.step = step, .time = 1.7e9 + static_cast<double>(step), .epoch = 0.5, .values = values});
}

inline void write_sample_log(const std::filesystem::path& path) {
  EventLogWriter log(path);
  log.identity(sample_info());
  log.config({{"optimizer", {{"lr", 0.1}}}});
  log_loss(log, 1, 2.5);
  log_loss(log, 2, std::numeric_limits<double>::quiet_NaN());
  const std::array<Metric, 2> values = {{{"eval/loss", 0.5}, {"eval/accuracy", 0.75}}};
  log.scalars({.step = 2, .time = 1.7e9 + 3, .epoch = 1, .values = values});
  log.text({.time = 1.7e9, .level = TextLevel::Warning, .line = "slow"});
  const auto at = [](const char* name) {
    Moment moment;
    moment.name = name;
    moment.step = 2;
    moment.time = 1.7e9;
    return moment;
  };
  log.histogram({.at = at("weights"), .edges = {0, 1, 2}, .counts = {3, 4}});
  log.image({.at = at("digits"), .width = 1, .height = 2, .caption = "a 7", .png = "png"});
  log.clip({.at = at("tone"), .type = "audio/wav", .caption = "low", .bytes = {"RIFF\0", 5}});
  log.table({.at = at("confusion"),
             .columns = {"is", "count"},
             .rows = Json::array({Json::array({"7", 12}), Json::array({"9", nullptr})})});
  log.alert({.time = 1.7e9, .title = "nan", .text = "train/loss is NaN", .step = 2});
  log.artifact({.time = 1.7e9, .name = "model", .type = "model", .version = 3, .digest = "ab"});
  log.console({.time = 1.7e9, .rank = 1, .is_error = true, .line = "oops"});
  log.heartbeat(1.7e9);
  log_loss(log, 3, -std::numeric_limits<double>::infinity());
  log.summary({{"best", 0.75}});
  log.end({.state = RunState::Finished});
  log.close();
}

}  // namespace lockstep::tracking
