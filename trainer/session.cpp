#include "lockstep/session.h"

#include <fmt/format.h>

#include "core/standard_exceptions.h"
#include "core/system/durable_file.h"
#include "formats/store/process_cache.h"
#include "launch/report/error_file.h"
#include "launch/report/launch_report.h"
#include "launch/workers/group_member.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/stop_request.h"
#include "trainer/config/run_length.h"
#include "trainer/handshake.h"
#include "trainer/loop/stop_signals.h"
#include "trainer/loop/trainer.h"
#include "trainer/metrics/dataset_metadata.h"
#include "trainer/observed_session.h"
#include "trainer/rank_group_training.h"
#include "trainer/recorded_run.h"

namespace lockstep {
namespace {

// Warns if the run reads other commits of repositories than those in `earlier`, of its data.json.
void warn_of_new_commits(const Json& earlier, const Json& commits, Tracker& tracker) {
  for (const auto& [place, commit] : commits.items()) {
    if (!earlier.contains(place) || earlier[place] == commit) continue;
    tracker.text(TextLevel::Warning,
                 fmt::format("{} is now at commit {}, but the run read {} before: the samples may "
                             "differ; to read the same ones, name that commit in the path",
                             place, commit.dump(), earlier[place].dump()));
  }
}

// Writes what is known of the data to the run directory: the dataset's metadata, and the commits of
// repositories. Its warnings go to the log.
void record_data_info(const Dataset& train_set, Tracker& tracker, const World& world,
                      const std::filesystem::path& run_dir) {
  if (!tracking::is_main(world.rank())) return;
  for (const auto& line : train_set.warnings())
    tracker.text(TextLevel::Warning, "data.train: " + line);
  auto info = trainer::metadata_of(train_set, "data.train");
  const auto file = run_dir / "data.json";
  if (const Json commits = formats::store_commits(); !commits.empty()) {
    const auto earlier =
        std::filesystem::exists(file) ? Json::parse(read_file(file), nullptr, false) : Json();
    if (earlier.contains("commits")) warn_of_new_commits(earlier["commits"], commits, tracker);
    info["commits"] = commits;
  }
  if (!info.is_null()) write_file_durably(file, info.dump(2) + "\n");
}

void record_notes(const Model& model, Tracker& tracker, const World& world) {
  if (!tracking::is_main(world.rank())) return;
  for (const auto& line : model.warnings()) tracker.text(TextLevel::Warning, line);
}

RunEnd describe_end(const trainer::Trainer& trainer, const std::filesystem::path& run_dir) {
  const auto& stop = trainer.stop();
  if (!stop.is_stopping()) return {.state = RunState::Finished};
  const auto where =
      fmt::format("after step {} of {}, with a checkpoint", trainer.step(), trainer.total_steps());
  switch (*stop.reason()) {
    case StopReason::EarlyStop:
      return {.state = RunState::Finished,
              .reason = fmt::format("stopped early {}: {}", where, stop.explanation())};
    case StopReason::Requested: {
      const auto request = tracking::read_stop_request(run_dir);
      const bool has_reason = request && !request->reason.empty();
      return {.state = RunState::Finished,
              .reason = fmt::format("stopped on request {}{}", where,
                                    has_reason ? ": " + request->reason : "")};
    }
    case StopReason::Preempted: {
      return {
          .state = RunState::Preempted,
          .exit_code = 128 + stop.signal(),
          .signal = stop.signal(),
          .reason = fmt::format("preempted by {} {}", launch::signal_name(stop.signal()), where)};
    }
  }
  return {.state = RunState::Finished};
}

// Collective: resumes the run or starts a new one, and opens its record. Returns the step at which it
// begins.
int64_t start(const trainer::GroupTrainingParts& parts, trainer::GroupTraining& training) {
  auto& run = parts.run;
  auto& record = parts.record;
  record.claim();
  auto& trainer = training.create();
  const bool continues =
      parts.options.resume_id || run.config.checkpoint.resume == trainer::ResumePolicy::Auto;
  const auto resumed = continues ? trainer.resume() : 0;
  if (resumed == 0) trainer.start_new();
  trainer.try_model();
  trainer::end_start(run);
  record.open(trainer::planned_length(run.config.train, trainer.total_steps()), resumed);
  record_data_info(*run.data.train, record.tracker(), parts.world, record.dir());
  if (resumed == 0) record_notes(*run.model, record.tracker(), parts.world);
  return resumed;
}

// A spare gets its state from the ranks of the group that it joins.
bool join(const trainer::GroupTrainingParts& parts, trainer::GroupTraining& training) {
  trainer::end_start(parts.run);
  return training.join();
}

// Collective. `stop_signals` and `training`: what it creates; both outlive it.
SessionResult train(trainer::GroupTrainingParts& parts,
                    std::optional<trainer::StopSignals>& stop_signals,
                    std::optional<trainer::GroupTraining>& training) {
  auto& [world, options, run, record, member, signals] = parts;
  world.progress().enter(Phase::Building);
  if (options.handle_signals) signals = &stop_signals.emplace(world.progress());
  if (signals && member) member->quit_when_readable(signals->term_fd());
  training.emplace(parts);
  SessionResult result{.run_id = record.id(), .run_dir = record.dir(), .rank = -1};
  int64_t resumed = 0;
  if (!options.ranks.is_spare)
    resumed = start(parts, *training);
  else if (!join(parts, *training))
    return result;
  const auto evaluation = training->run();
  if (!evaluation) return result;
  result.evaluation = *evaluation;
  result.rank = options.ranks.rank;
  const auto* const trainer = training->trainer();
  world.progress().enter(Phase::Finishing);
  const auto end = describe_end(*trainer, record.dir());
  result.stopped = trainer->stop().reason();
  result.signal = end.signal.value_or(0);
  result.reason = end.reason;
  if (resumed > 0 && resumed == trainer->step() && end.reason.empty())
    result.reason = fmt::format(
        "the run is already finished (step {} of {}): nothing was trained; to continue, increase "
        "train.epochs or train.max_steps",
        resumed, trainer->total_steps());
  result.lost = record.finish(end);
  return result;
}

SessionResult train(trainer::GroupTrainingParts parts) {
  // Outside the try block: a failure is recorded before their destructors wait for a checkpoint.
  std::optional<trainer::StopSignals> stop_signals;
  std::optional<trainer::GroupTraining> training;
  try {
    return with_standard_exceptions([&] { return train(parts, stop_signals, training); });
  } catch (const std::exception& error) {
    if (training && training->trainer()) training->trainer()->report_failure(error);
    parts.record.fail(error);
    throw;
  }
}

// Collective. If a rank is lost now, there is nothing left to continue.
void finish(World& world, bool can_lose_ranks) {
  try {
    world.finish();
  } catch (const PeerError&) {
    if (!can_lose_ranks) throw;
  }
}

// A spare is alone until it has a place in a group.
RankEnv ranks_alone(RankEnv ranks) {
  ranks.rank = ranks.local_rank = 0;
  ranks.world_size = ranks.local_world_size = 1;
  return ranks;
}

}  // namespace

SessionResult trainer::run_observed_session(const SessionOptions& given, ProgressPage& progress) {
  auto options = given;  // the ranks may change
  const auto config = trainer::load_run_config(options.config_path, options.overrides);
  if (!options.own_run) config.run.verify_dir();
  auto run = with_standard_exceptions(
      [&] { return trainer::prepare_training(config, options.ranks, options.hooks); });
  std::optional<launch::GroupMember> member;
  if (options.ranks.group_fd) {
    member.emplace(*options.ranks.group_fd, options.ranks.group_address);
    trainer::verify_can_lose_ranks(run, options);
  }
  trainer::verify_slow_ranks(run.config.distributed.slow_ranks, member.has_value());
  progress.enter(Phase::Connecting);
  const auto ranks = options.ranks.is_spare ? ranks_alone(options.ranks) : options.ranks;
  const auto connected =
      World::connect(trainer::world_options(ranks, run.config.distributed, &progress));
  auto& world = *connected;
  try {
    auto local_pids = trainer::verify_ranks_agree(world, run);
    const auto record = trainer::agree_on_run(world, options, run, std::move(local_pids));
    auto result = train({world, options, run, *record, member ? &*member : nullptr});
    if (result.rank >= 0) finish(world, member.has_value());
    return result;
  } catch (const std::exception& error) {
    // Reported before this rank disconnects, which makes the other ranks fail.
    launch::report_failure(world.progress(), launch::describe_error(error));
    throw;
  }
}

SessionResult run_session(const SessionOptions& options) {
  ProgressPage unobserved;
  return trainer::run_observed_session(options, unobserved);
}

}  // namespace lockstep
