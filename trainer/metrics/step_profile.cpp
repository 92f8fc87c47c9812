#include "trainer/metrics/step_profile.h"

#include <fmt/format.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <algorithm>
#include <set>
#include <string>

#include "lockstep/error.h"
#include "lockstep/rank_env.h"

// Of torch/csrc/profiler/kineto_shim.h, which needs Kineto's own headers.
namespace torch::autograd::profiler {
void addMetadataJson(const std::string& key, const std::string& value);
}

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;
namespace profiler = torch::autograd::profiler;
using torch::profiler::impl::ActivityType;

void begin_profile(const World& world) {
  const torch::profiler::impl::ProfilerConfig config(torch::profiler::impl::ProfilerState::KINETO,
                                                     /*report_input_shapes=*/true);
  std::set<ActivityType> activities = {ActivityType::CPU};
  if (world.device().is_cuda()) activities.insert(ActivityType::CUDA);
  profiler::prepareProfiler(config, activities);
  profiler::enableProfiler(config, activities);
  // As in traces of torch.profiler, which tools for several ranks read.
  profiler::addMetadataJson("distributedInfo", fmt::format(R"({{"rank": {}, "world_size": {}}})",
                                                           world.rank(), world.world_size()));
}

// Returns whether the trace was written.
bool write_trace(profiler::ProfilerResult& trace, const fs::path& path) {
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  const auto part = fs::path(path.string() + ".part.json");
  trace.save(part.string());
  fs::rename(part, path, error);
  return !error;
}

}  // namespace

void verify_profile(const ProfileConfig& config, int world_size, int64_t total_steps) {
  if (config.steps->last > total_steps)
    throw config_error(fmt::format("train.profile.steps: {}: the run has {} steps",
                                   config.steps->text(), total_steps));
  for (const auto each : config.ranks)
    if (each >= world_size)
      throw config_error(fmt::format("train.profile.ranks: there is no rank {}: the run has {}",
                                     each, world_size));
}

StepProfile::StepProfile(const ProfileConfig& config, int rank)
    : steps_(config.steps.value()),
      is_recording_rank_(std::ranges::find(config.ranks, rank) != config.ranks.end()) {
  set_environment_default("KINETO_LOG_LEVEL", "5");  // no error messages where there is no GPU
}

void StepProfile::before_step(HookContext& run) {
  const auto next = run.step + 1;
  if (!is_recording_rank_ || first_ > 0 || next < steps_.first || next > steps_.last) return;
  begin_profile(run.world);
  first_ = next;
}

void StepProfile::after_step(HookContext& run) {
  if (run.step == steps_.last) finish(run);
}

void StepProfile::finish(HookContext& run) {
  if (first_ == 0) return;
  const StepRange steps{first_, std::max(first_, run.step)};
  first_ = 0;
  const auto trace = profiler::disableProfiler();
  const auto path = run.run_dir / "profiles" /
                    fmt::format("rank-{:05}-steps-{}.json", run.world.rank(), steps.text());
  if (write_trace(*trace, path))
    run.tracker.text(TextLevel::Info, "profile: " + path.string());
  else
    run.tracker.text(TextLevel::Warning,
                     "train.profile: the trace could not be written to " + path.string());
}

}  // namespace lockstep::trainer
