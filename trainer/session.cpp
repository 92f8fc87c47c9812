#include "trainer/session.h"

#include <fmt/format.h>
#include <unistd.h>

#include <ctime>

#include "core/config/run_file.h"
#include "core/error.h"
#include "core/run_id.h"
#include "core/system/durable_file.h"
#include "core/system/local_address.h"
#include "distributed/objects.h"
#include "launch/report/error_file.h"
#include "launch/report/launch_report.h"
#include "tracking/agent/run_entries.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/job_run.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/stop_request.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/log_forwarding.h"
#include "trainer/loop/trial.h"
#include "trainer/meeting.h"
#include "trainer/model_building.h"

namespace lockstep {
namespace {

constexpr const char* kRunIdKey = "lockstep/run_id";

// Which run this job is: named by the user, by the launcher, by the scheduler's job, by an earlier
// attempt of the same job, or new.
std::string choose_run_id(World& world, const SessionOptions& options, const RunConfig& config) {
  if (options.own_run) return options.own_run->run_dir.filename();
  if (options.resume_id) return *options.resume_id;
  if (options.ranks.run_id) return *options.ranks.run_id;
  if (!options.ranks.job.empty())
    return run_of_job(config.run.dir, config.run.name,
                      {.id = options.ranks.job, .restarted = options.ranks.job_restarted})
        .value_or(new_run_id(config.run.name));
  if (const auto earlier = world.recall(kRunIdKey)) return *earlier;
  return new_run_id(config.run.name);
}

void verify_resumable(const std::filesystem::path& run_dir, const std::string& id) {
  if (!list_checkpoints(checkpoints_path(run_dir)).empty()) return;
  throw config_error(
      fmt::format("--resume {}: {} has no checkpoint to continue from", id, run_dir.string()));
}

RunInfo describe_process(const SessionOptions& options, const RunConfig& config,
                         const std::string& run_id) {
  const auto& ranks = options.ranks;
  return {.id = run_id,
          .name = config.run.name,
          .group = config.tracking.group,
          .job_id = run_id,
          .rank = ranks.rank,
          .world_size = ranks.world_size,
          .node_rank = ranks.node_rank,
          .local_rank = ranks.local_rank,
          .host = own_host_name(),
          .pid = ::getpid(),
          .created = static_cast<double>(std::time(nullptr)),
          .command = options.command};
}

std::string agree_on_run(World& world, const SessionOptions& options, const RunConfig& config) {
  return act_on_main(world, "run id", [&] {
    const auto id = choose_run_id(world, options, config);
    if (!is_run_id(id)) throw config_error(fmt::format("'{}' is no run id", id));
    if (options.resume_id && !options.own_run)
      verify_resumable(std::filesystem::path(config.run.dir) / id, id);
    return id;
  });
}

// Asked before anything of the run is touched.
void verify_no_other_job(World& world, const RunInfo& process,
                         const std::filesystem::path& run_dir) {
  act_on_main(world, "run directory", [&] {
    if (is_written_on(run_dir, process.node_rank))
      throw environment_error(
          fmt::format("run {} is being written by another job ({}): wait for its end, or choose "
                      "another run id",
                      process.job_id, run_dir.string()));
    return true;
  });
}

void open_run(World& world, const RunInfo& process, const Json& resolved,
              const std::filesystem::path& run_dir) {
  act_on_main(world, "run directory", [&] {
    create_run_directory(run_dir, process, resolved);
    clear_stop_request(run_dir);  // of an earlier part of the run
    world.remember(kRunIdKey, process.job_id);
    return true;
  });
}

// What the data mean, beside the weights that were trained on them.
void tell_about_data(const Dataset& train_set, Tracker& tracker, const World& world,
                     const std::filesystem::path& run_dir) {
  if (!is_main(world.rank())) return;
  for (const auto& line : train_set.remarks())
    tracker.text(TextLevel::Warning, "data.train: " + line);
  if (const auto meaning = train_set.meaning(); !meaning.is_null())
    write_file_durably(run_dir / "data.json", meaning.dump(2) + "\n");
}

// A failure is recorded twice: as a fact about the job, which the agent reads once the log is
// closed, and in this process's log. A launcher sees how each rank ends; where there is none, a
// rank without a fact was killed.
void record_failure(const RankEnv& ranks, Tracker& tracker, const std::filesystem::path& run_dir,
                    const std::exception& error) {
  const auto report = describe_error(error);
  const RunEnd end{.state = RunState::Failed,
                   .exit_code = exit_code_of(report),
                   .rank = ranks.rank,
                   .reason = report.message.substr(0, report.message.find('\n'))};
  try {
    if ((is_main(ranks.rank) || ranks.launcher == 0) && read_job(run_dir))
      record_end(run_dir, {.by = Witness::Trainer,
                           .number = ranks.rank,
                           .end = end,
                           .is_consequence = report.peer,
                           .time = unix_now()});
  } catch (const Error&) {
    // The disk may be what failed; the error on its way to the user is the one that matters.
  }
  tracker.finish(end);
}

void report_tracking(const TrackingReport& report, std::ostream* out) {
  if (out && !report.problem.empty()) *out << "tracking: " << report.problem << std::endl;
}

// What a rank has when all have met and know which run this is.
struct Job {
  World& world;
  const SessionOptions& options;
  const RunConfig& config;
  const Json& resolved;
  const Dataset& train_set;
  const Dataset* eval_set;
  std::filesystem::path run_dir;
  std::vector<int64_t> local_pids;
  std::shared_ptr<Model> model;
};

Forwarding forwarding_of(const Job& job, const RunInfo& process) {
  const auto& tracking = job.config.tracking;
  if (!tracking.agent || job.options.agent_program.empty()) return {};
  const bool logs =
      decide(tracking.ranks, process, {.run_name = tracking.run_name, .group = tracking.group})
          .has_value();
  return arrange_forwarding(
      job.world,
      {.ranks = job.options.ranks, .run_dir = job.run_dir, .logs = logs, .make_run_dir = [&] {
         create_run_directory(job.run_dir, process, job.resolved);
       }});
}

Tracker open_tracker_of(const Job& job, const Trainer& trainer, int64_t resumed) {
  const auto& options = job.options;
  auto process = describe_process(options, job.config, job.run_dir.filename());
  process.planned = {trainer.total_steps(), static_cast<double>(job.config.train.epochs)};
  return open_tracker({.run_dir = job.run_dir,
                       .process = process,
                       .config = job.config.tracking,
                       .run_config = job.resolved,
                       .resume_step = resumed,
                       .console = options.console,
                       .agent_program = options.agent_program,
                       .local_world_size = options.ranks.local_world_size,
                       .local_pids = job.local_pids,
                       .forwarding = forwarding_of(job, process),
                       .launcher = options.ranks.launcher});
}

RunEnd describe_end(const Trainer& trainer, const std::filesystem::path& run_dir) {
  const auto stopped = trainer.stop_reason();
  if (!stopped) return {.state = RunState::Finished};
  const auto where =
      fmt::format("after step {} of {}, with a checkpoint", trainer.step(), trainer.total_steps());
  switch (*stopped) {
    case StopReason::EarlyStop:
      return {.state = RunState::Finished,
              .reason = fmt::format("stopped early {}: {}", where, trainer.early_stop_reason())};
    case StopReason::Requested: {
      const auto request = read_stop_request(run_dir);
      const bool has_reason = request && !request->reason.empty();
      return {.state = RunState::Finished,
              .reason = fmt::format("stopped on request {}{}", where,
                                    has_reason ? ": " + request->reason : "")};
    }
    case StopReason::Preempted: {
      const int signal = trainer.stop_signal();
      return {.state = RunState::Preempted,
              .exit_code = 128 + signal,
              .signal = signal,
              .reason = fmt::format("preempted by {} {}", signal_name(signal), where)};
    }
  }
  return {.state = RunState::Finished};
}

// The main rank's word on how the job ended, before the agent may ask for it. A run that came to
// its last step needs no word, but an agent of an attempt before may have said that it was killed.
void record_good_end(const RankEnv& ranks, const std::filesystem::path& run_dir,
                     const RunEnd& end) {
  if (!is_main(ranks.rank)) return;
  clear_end(run_dir);
  if (end.reason.empty()) return;
  try {
    record_end(run_dir, {.by = Witness::Trainer, .end = end, .time = unix_now()});
  } catch (const Error&) {
    // A full disk; the event log says the same.
  }
  clear_stop_request(run_dir);
}

// What there is to know at the end of a run whose record is gone.
std::string describe_loss(const std::string& lost, const std::filesystem::path& run_dir) {
  if (lost.empty()) return "";
  const auto steps = list_checkpoints(checkpoints_path(run_dir));
  if (steps.empty()) return lost + "; there is no checkpoint of it";
  return fmt::format("{}; the last checkpoint is {}", lost,
                     (checkpoints_path(run_dir) / std::to_string(steps.back())).string());
}

// The other ranks wait while the main one waits for its sinks: that is no hang.
void allow_for_sinks(World& world, const RunConfig& config) {
  world.progress().set_limits(config.distributed.hang_warning.value +
                                  config.tracking.finish_timeout.value / kPatienceOutsideOfSteps,
                              world.timeout());
}

// The run's directory is made, or an earlier record of it replaced, only once nothing in the input
// can be wrong any more.
SessionResult train(const Job& job) {
  const auto& [world, options, config, resolved, train_set, eval_set, run_dir, local_pids, model] =
      job;
  const bool is_own = options.own_run.has_value();
  Tracker made;
  auto& tracker = is_own ? options.own_run->tracker : made;
  // Out here, so that a failure is recorded before a checkpoint under way is waited for.
  std::optional<Interruption> interruption;
  std::optional<Trainer> trainer;
  bool is_of_another = false;
  try {
    world.progress().enter(Phase::Building);
    if (options.handle_signals) interruption.emplace(world.progress());
    const auto process = describe_process(options, config, run_dir.filename());
    if (!is_own) {
      is_of_another = true;
      verify_no_other_job(world, process, run_dir);
      is_of_another = false;
    }
    trainer.emplace(TrainerParts{world, config, train_set, eval_set, tracker, run_dir,
                                 interruption ? &*interruption : nullptr, model});
    const bool continues = options.resume_id || config.checkpoint.resume == ResumePolicy::Auto;
    const auto resumed = continues ? trainer->resume() : 0;
    if (resumed == 0) trainer->load_initial_weights();
    try_model({config, *model, train_set, eval_set, world.device()});
    if (!is_own) {
      open_run(world, process, resolved, run_dir);
      made = open_tracker_of(job, *trainer, resumed);
    }
    tell_about_data(train_set, tracker, world, run_dir);
    SessionResult result{.run_id = run_dir.filename(), .run_dir = run_dir};
    result.evaluation = trainer->run();
    world.progress().enter(Phase::Finishing);
    const auto end = describe_end(*trainer, run_dir);
    result.stopped = trainer->stop_reason();
    result.signal = trainer->stop_signal();
    result.reason = end.reason;
    if (resumed > 0 && resumed == trainer->step() && end.reason.empty())
      result.reason = fmt::format(
          "the run is already finished (step {} of {}): nothing was trained; raise train.epochs or "
          "train.max_steps to go on",
          resumed, trainer->total_steps());
    if (is_own) return result;
    allow_for_sinks(world, config);
    record_good_end(options.ranks, run_dir, end);
    const auto report = made.finish(end);
    report_tracking(report, options.console.out);
    result.lost = describe_loss(report.lost, run_dir);
    return result;
  } catch (const std::exception& error) {
    if (!is_own && !is_of_another) record_failure(options.ranks, made, run_dir, error);
    throw;
  }
}

}  // namespace

SessionResult run_session(const SessionOptions& options) {
  const auto config = load_run_config(options.config_path, options.overrides);
  const auto resolved = with_escaped_variables(ConfigDumper::dump(config));
  decide(config.tracking.ranks, describe_process(options, config, config.run.name),
         {.run_name = config.tracking.run_name, .group = config.tracking.group});
  const auto [data, plan, model] =
      build_parts(config, {options.ranks.world_size, options.ranks.local_world_size});
  const auto& [train_set, eval_set] = data;

  World world(world_options(options.ranks, config.distributed, options.progress));
  try {
    const auto local_pids = compare_notes(world, options.ranks, resolved, data);
    const auto run_id = agree_on_run(world, options, config);
    const auto run_dir =
        options.own_run ? options.own_run->run_dir : std::filesystem::path(config.run.dir) / run_id;
    const auto result = train(
        {world, options, config, resolved, *train_set, eval_set.get(), run_dir, local_pids, model});
    world.finish();
    return result;
  } catch (const std::exception& error) {
    // Before this rank leaves the others, who fail because of that.
    tell_failure(world.progress(), describe_error(error));
    throw;
  }
}

}  // namespace lockstep
