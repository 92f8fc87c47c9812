#include "tracking/run_directory.h"

#include <fmt/format.h>

#include <ctime>

#include "core/config_fields.h"
#include "core/durable_file.h"
#include "tracking/run_end.h"

namespace lockstep {
namespace {

std::filesystem::path job_path(const std::filesystem::path& run_dir) {
  return run_dir / "run.json";
}

}  // namespace

std::filesystem::path event_log_path(const std::filesystem::path& run_dir, int rank) {
  return run_dir / "events" / fmt::format("rank-{:05}.lsev", rank);
}

std::filesystem::path logs_path(const std::filesystem::path& run_dir) { return run_dir / "logs"; }

std::filesystem::path checkpoints_path(const std::filesystem::path& run_dir) {
  return run_dir / "checkpoints";
}

void create_run_directory(const std::filesystem::path& run_dir, const RunInfo& job,
                          const Json& config) {
  make_directories(run_dir / "events");
  clear_run_end(run_dir);
  const auto before = read_job(run_dir);
  auto created = before ? before->created : job.created;
  if (created == 0) created = static_cast<double>(std::time(nullptr));
  const Json json = {{"id", job.job_id},
                     {"name", job.name},
                     {"group", ConfigValue<std::optional<std::string>>::dump(job.group)},
                     {"world_size", job.world_size},
                     {"created", created},
                     {"host", job.host},
                     {"command", job.command}};
  write_file_durably(run_dir / "config.yaml", to_yaml(config));
  write_file_durably(job_path(run_dir),
                     json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::optional<RunInfo> read_job(const std::filesystem::path& run_dir) {
  std::error_code ignored;
  if (!std::filesystem::exists(job_path(run_dir), ignored)) return std::nullopt;
  return run_info_from_json(Json::parse(read_file(job_path(run_dir)), nullptr, false));
}

}  // namespace lockstep
