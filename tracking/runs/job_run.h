// Which run a job of a scheduler is: the same id in every process of it, and again when the
// scheduler starts it anew (a requeue), so that the run goes on.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct SchedulerJob {
  std::string id;          // "slurm-1234-0"
  bool restarted = false;  // by the scheduler
};

// "<name>-<job id>". nullopt when that run is there already and is not this job's to go on with:
// job numbers begin again some day, one job step may train one run after another, and a run that
// has finished is over. Reads only; rank 0 (or the launcher of node 0) decides for all.
std::optional<std::string> run_of_job(const std::filesystem::path& runs_dir,
                                      const std::string& name, const SchedulerJob& job);

}  // namespace lockstep::tracking
