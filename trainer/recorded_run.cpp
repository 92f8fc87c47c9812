#include "trainer/recorded_run.h"

#include <ATen/Version.h>
#include <fmt/format.h>
#include <poll.h>
#include <torch/version.h>
#include <unistd.h>

#include <chrono>
#include <ctime>

#include "core/run_id.h"
#include "core/system/local_address.h"
#include "core/system/progress_page.h"
#include "distributed/objects.h"
#include "formats/store/store_path.h"
#include "launch/report/error_file.h"
#include "lockstep/error.h"
#include "lockstep/version.h"
#include "tracking/agent/run_entries.h"
#include "tracking/copies/bucket_runs.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/unix_time.h"
#include "tracking/open_tracker.h"
#include "tracking/runs/end_facts.h"
#include "tracking/runs/job_run.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/software.h"
#include "tracking/runs/stop_request.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/checkpoint/checkpoint_mirror.h"
#include "trainer/log_forwarding.h"

namespace lockstep::trainer {
namespace {

constexpr const char* kRunIdKey = "lockstep/run_id";

// For the event log of a lost rank 0. After that, it is an error.
constexpr std::chrono::seconds kMaxLogWait{30};
constexpr int kLogPollMs = 50;

// The id of this job's run: given by the user, the launcher, the scheduler's job or an earlier
// attempt of the same job, or new.
std::string choose_run_id(World& world, const SessionOptions& options, const RunConfig& config) {
  if (options.resume_id) return *options.resume_id;
  if (options.ranks.run_id) return *options.ranks.run_id;
  if (!options.ranks.job.empty())
    return tracking::run_of_job(config.run.dir, config.run.name,
                                {.id = options.ranks.job, .restarted = options.ranks.job_restarted})
        .value_or(new_run_id(config.run.name));
  if (const auto earlier = world.get_value(kRunIdKey)) return *earlier;
  return new_run_id(config.run.name);
}

// Of the LibTorch that this process uses; TORCH_VERSION is the one that Lockstep was built with.
std::string libtorch_version() {
  constexpr std::string_view kKey = " TORCH_VERSION=";
  const auto settings = at::show_config();
  const auto found = settings.find(kKey);
  if (found == std::string::npos) return TORCH_VERSION;
  const auto begin = found + kKey.size();
  return settings.substr(begin, settings.find(',', begin) - begin);
}

bool has_checkpoint(const std::filesystem::path& run_dir) {
  return !list_checkpoints(tracking::checkpoints_path(run_dir)).empty();
}

// A run that resumes on another machine continues the event logs that the sink `bucket` has sent.
// Without them it trains all the same, unless the user resumes it and can mend what is wrong.
void fetch_mirrored_logs(const SessionOptions& options, const RunConfig& config,
                         const std::filesystem::path& run_dir) {
  const auto* sink = config.tracking.sinks.find("bucket");
  if (!sink) return;
  auto place = formats::parse_store_path(sink->dump()["path"].get<std::string>());
  const bool resumes = options.resume_id ||
                       (config.checkpoint.resume == ResumePolicy::Auto && has_checkpoint(run_dir));
  if (!resumes) return;
  try {
    tracking::fetch_run_of_bucket(std::make_unique<formats::ObjectFolder>(
                                      std::move(place), config.data.object_cache.timeout.value),
                                  run_dir);
  } catch (const Error& error) {
    if (options.resume_id) throw;
    if (options.console.out)
      *options.console.out << "tracking: the earlier records of the run were not fetched: "
                           << error.what() << std::endl;
  }
}

// Verifies that checkpoints can be mirrored. If the run continues, but its checkpoints are not here,
// fetches the latest one.
void use_mirror(const RunConfig& config, const std::string& id,
                const std::filesystem::path& run_dir, bool continues) {
  if (!config.checkpoint.mirror) return;
  const auto folder =
      mirror_of_run(*config.checkpoint.mirror, id, config.data.object_cache.timeout.value);
  verify_mirror(*folder);
  if (continues) fetch_mirrored(*folder, tracking::checkpoints_path(run_dir));
}

void verify_resumable(const std::filesystem::path& run_dir, const std::string& id) {
  if (has_checkpoint(run_dir)) return;
  std::error_code ignored;
  if (!std::filesystem::exists(run_dir, ignored))
    throw config_error(
        fmt::format("--resume {}: there is no such run in {}; `lockstep runs list` lists the runs",
                    id, run_dir.parent_path().string()));
  throw config_error(
      fmt::format("--resume {}: {} has no checkpoint to resume from", id, run_dir.string()));
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

// Message at the end of a run whose record is lost.
std::string describe_loss(const std::string& lost, const std::filesystem::path& run_dir) {
  if (lost.empty()) return "";
  const auto steps = list_checkpoints(tracking::checkpoints_path(run_dir));
  if (steps.empty()) return lost + "; the run has no checkpoint";
  return fmt::format("{}; the last checkpoint is {}", lost,
                     (tracking::checkpoints_path(run_dir) / std::to_string(steps.back())).string());
}

// Records on the main rank how the job ended, before the agent reads it. A run that reached its
// last step needs no record, but an agent of an earlier attempt may have recorded that it was
// killed.
void record_good_end(const std::filesystem::path& run_dir, const RunEnd& end) {
  tracking::clear_end(run_dir);
  if (end.reason.empty()) return;
  try {
    tracking::record_end(
        run_dir, {.by = tracking::Witness::Trainer, .end = end, .time = tracking::unix_now()});
  } catch (const Error&) {
    // The disk is full; the event log contains the same.
  }
  tracking::clear_stop_request(run_dir);
}

// A failure is recorded twice: as the outcome of the job, which the agent reads once the log is
// closed, and in this process's log. A launcher sees how each rank exits; without a launcher, a
// rank without a recorded outcome was killed.
void record_failure(const std::filesystem::path& run_dir, const RankEnv& ranks, const RunEnd& end,
                    bool is_consequence) {
  try {
    if ((tracking::is_main(ranks.rank) || ranks.launcher == 0) && tracking::read_job(run_dir))
      tracking::record_end(run_dir, {.by = tracking::Witness::Trainer,
                                     .number = ranks.rank,
                                     .end = end,
                                     .is_consequence = is_consequence,
                                     .time = tracking::unix_now()});
  } catch (const Error&) {
    // The disk itself may have failed; the original error is the one to report.
  }
}

// Created and finished by the session.
class ManagedRun final : public RecordedRun {
 public:
  ManagedRun(World& world, const SessionOptions& options, const PreparedRun& run,
             const std::string& id, std::vector<int64_t> local_pids)
      : RecordedRun(std::filesystem::path(run.config.run.dir) / id),
        world_(world),
        options_(options),
        run_(run),
        process_(describe_process(options, run.config, id)),
        local_pids_(std::move(local_pids)) {}

  Tracker& tracker() override { return tracker_; }

  void claim() override {
    distributed::act_on_main(world_, "run directory", [&] {
      if (tracking::is_written_on(dir(), process_.node_rank))
        throw environment_error(
            fmt::format("run {} is being written by another job ({}): wait for its end, or choose "
                        "another run id",
                        id(), dir().string()));
      return true;
    });
    is_claimed_ = true;
  }

  void open(RunLength planned, int64_t resumed) override {
    distributed::act_on_main(world_, "run directory", [&] {
      create_run_directory(dir(), process_, run_.resolved);
      tracking::write_software(dir(), {{"lockstep", kVersion}, {"libtorch", libtorch_version()}});
      tracking::clear_stop_request(dir());  // of an earlier part of the run
      world_.set_value(kRunIdKey, id());
      return true;
    });
    is_open_ = true;
    process_.planned = planned;
    const auto forwarding = arrange();
    start_tracker(resumed, forwarding);
  }

  bool change_ranks(RunLength planned, int64_t step, std::vector<int64_t> local_pids) override {
    is_claimed_ = is_open_ = true;
    local_pids_ = std::move(local_pids);
    process_.rank = options_.ranks.rank;
    process_.local_rank = options_.ranks.local_rank;
    process_.world_size = options_.ranks.world_size;
    process_.planned = planned;
    // The main rank may change although its process is alive: to one that completed another step. It
    // waits for the log.
    if (tracker_.is_logging() && !tracking::is_main(process_.rank)) tracker_ = {};
    const bool was_logging = tracker_.is_logging();
    distributed::act_on_main(world_, "run directory", [&] {
      create_run_directory(dir(), process_, run_.resolved);
      if (!was_logging) {
        wait_for_log();
        start_tracker(step, {});
      }
      return true;
    });
    return !was_logging && tracker_.is_logging();
  }

  std::string finish(const RunEnd& end) override {
    // The other ranks wait while the main rank waits for its sinks: that is not a hang.
    const auto& config = run_.config;
    world_.progress().set_limits(
        config.distributed.hang_warning.value +
            config.tracking.finish_timeout.value / kTimeoutFactorOutsideSteps,
        world_.timeout());
    if (tracking::is_main(world_.rank())) record_good_end(dir(), end);
    const auto report = tracker_.finish(end);
    if (options_.console.out && !report.problem.empty())
      *options_.console.out << "tracking: " << report.problem << std::endl;
    return describe_loss(report.lost, dir());
  }

  void fail(const std::exception& error) override {
    if (!is_claimed_) return;  // the run may belong to another job
    // The input was refused before the run was modified: it ended as its last attempt did.
    if (!is_open_ && kind_of(error) == ErrorKind::Config) return;
    const auto report = launch::describe_error(error);
    const RunEnd end{.state = RunState::Failed,
                     .exit_code = launch::exit_code_of(report),
                     .rank = options_.ranks.rank,
                     .reason = report.message.substr(0, report.message.find('\n'))};
    record_failure(dir(), options_.ranks, end, report.peer);
    tracker_.finish(end);
  }

 private:
  void start_tracker(int64_t resumed, tracking::Forwarding forwarding) {
    forwarding.may_move = options_.ranks.loss_fd.has_value();
    tracker_ = open_tracker({.run_dir = dir(),
                             .process = process_,
                             .run_config = run_.resolved,
                             .resume_step = resumed,
                             .console = options_.console,
                             .agent_program = options_.agent_program,
                             .local_world_size = options_.ranks.local_world_size,
                             .local_pids = local_pids_,
                             .launcher = options_.ranks.launcher},
                            run_.config.tracking, forwarding);
  }

  // A lost rank 0 holds the log until its memory is freed; on NFS, until the lease of its node ends.
  void wait_for_log() const {
    const auto log = tracking::event_log_path(dir(), process_.rank);
    const auto deadline = std::chrono::steady_clock::now() + kMaxLogWait;
    while (tracking::has_writer(log) && std::chrono::steady_clock::now() < deadline)
      ::poll(nullptr, 0, kLogPollMs);
  }

  tracking::Forwarding arrange() {
    const bool has_agent = run_.config.tracking.agent && !options_.agent_program.empty();
    if (!has_agent && !options_.ranks.loss_fd) return {};
    return arrange_forwarding(
        world_, {.ranks = options_.ranks,
                 .run_dir = dir(),
                 .logs = run_.is_logging,
                 .must_share = options_.ranks.loss_fd.has_value(),
                 .make_run_dir = [&] { create_run_directory(dir(), process_, run_.resolved); }});
  }

  World& world_;
  const SessionOptions& options_;
  const PreparedRun& run_;
  RunInfo process_;
  std::vector<int64_t> local_pids_;
  Tracker tracker_;
  bool is_claimed_ = false, is_open_ = false;
};

// Opened by the embedding program before the session, and continued after it.
class EmbeddedRun final : public RecordedRun {
 public:
  explicit EmbeddedRun(const OwnRun& run) : RecordedRun(run.run_dir), tracker_(run.tracker) {}
  Tracker& tracker() override { return tracker_; }

 private:
  Tracker& tracker_;
};

}  // namespace

std::unique_ptr<RecordedRun> agree_on_run(World& world, const SessionOptions& options,
                                          const PreparedRun& run, std::vector<int64_t> local_pids) {
  const auto& config = run.config;
  const auto id = distributed::act_on_main(world, "run id", [&] {
    const std::string chosen = options.own_run ? options.own_run->run_dir.filename().string()
                                               : choose_run_id(world, options, config);
    if (formats::has_scheme(chosen)) throw in_bucket("--resume", chosen);
    if (!is_run_id(chosen))
      throw config_error(fmt::format("'{}' is not a run id: {}", chosen, expected_run_id(chosen)));
    const auto run_dir =
        options.own_run ? options.own_run->run_dir : std::filesystem::path(config.run.dir) / chosen;
    const bool continues = options.resume_id || config.checkpoint.resume == ResumePolicy::Auto;
    use_mirror(config, chosen, run_dir, continues);
    fetch_mirrored_logs(options, config, run_dir);
    if (options.resume_id && !options.own_run) verify_resumable(run_dir, chosen);
    return chosen;
  });
  if (options.own_run) return std::make_unique<EmbeddedRun>(*options.own_run);
  return std::make_unique<ManagedRun>(world, options, run, id, std::move(local_pids));
}

}  // namespace lockstep::trainer
