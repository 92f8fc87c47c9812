// A small event log with one record of every type.
#pragma once

#include <array>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/durable_file.h"
#include "tracking/event_log_writer.h"

namespace lockstep {

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
  log.text(1.7e9, TextLevel::Warning, "slow");
  log_loss(log, 3, -std::numeric_limits<double>::infinity());
  log.summary({{"best", 0.75}});
  log.end({.state = RunState::Finished});
  log.close();
}

}  // namespace lockstep
