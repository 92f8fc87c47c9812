// The run of a scheduler job: the same ID in every process of the job, and again after a requeue,
// so that the run continues.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace lockstep::tracking {

struct SchedulerJob {
  std::string id;          // "slurm-1234-0"
  bool restarted = false;  // by the scheduler
};

// "<name>-<job id>". nullopt if that run exists and this job must not continue it: schedulers reuse
// job numbers, a job step may train several runs in a row, and the run may have finished.
// Read-only; rank 0 (or the launcher of node 0) decides for all.
std::optional<std::string> run_of_job(const std::filesystem::path& runs_dir,
                                      const std::string& name, const SchedulerJob& job);

}  // namespace lockstep::tracking
