#include "tracking/runs/job_run.h"

#include "core/run_id.h"
#include "tracking/runs/end_facts.h"

namespace lockstep::tracking {

std::optional<std::string> run_of_job(const std::filesystem::path& runs_dir,
                                      const std::string& name, const SchedulerJob& job) {
  const auto id = job_run_id(name, job.id);
  const auto dir = runs_dir / id;
  std::error_code error;
  if (!std::filesystem::exists(dir / "run.json", error)) return id;
  const auto end = read_run_end(dir);
  const bool continues = job.restarted && !(end && end->state == RunState::Finished);
  return continues ? std::optional(id) : std::nullopt;
}

}  // namespace lockstep::tracking
