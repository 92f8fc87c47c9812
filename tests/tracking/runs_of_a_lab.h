// A directory of runs, as left by several jobs.
#pragma once

#include <filesystem>
#include <string>

#include "lockstep/tracker.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {

// One job whose every rank logged two rows; `naming` as in decide().
inline void add_job(const std::filesystem::path& runs, const std::string& id,
                    const RankSelection& selection, int world_size, double created) {
  auto info = sample_info(id, 0, world_size);
  info.created = created;
  create_run_directory(runs / id, info, {{"optimizer", {{"lr", 0.1}}}});
  for (int rank = 0; rank < world_size; ++rank) {
    info.rank = info.local_rank = rank;
    const auto entry = decide(selection, info, {});
    if (!entry) continue;
    EventLogWriter log(event_log_path(runs / id, rank));
    log.identity(*entry);
    log.config({{"optimizer", {{"lr", 0.1}}}});
    log_loss(log, 1, 2.5);
    log_loss(log, 2, 1.5 + rank);
    const std::array<Metric, 1> values = {{{"eval/accuracy", 0.9}}};
    log.scalars({.step = 2, .time = created + 2, .epoch = 1, .values = values});
    log.end({.state = RunState::Finished});
  }
}

// A launcher's fact about the end of the job.
inline void record_end(const std::filesystem::path& run_dir, const RunEnd& end) {
  record_end(run_dir, {.by = Witness::Launcher, .end = end});
}

}  // namespace lockstep::tracking
