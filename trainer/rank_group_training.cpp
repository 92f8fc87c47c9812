#include "trainer/rank_group_training.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "tracking/runs/rank_losses.h"
#include "trainer/config/run_length.h"
#include "trainer/handshake.h"
#include "trainer/prepared/shard_choice.h"

namespace lockstep::trainer {
namespace {

// For all ranks of a new group, which are running, to connect. If one is lost meanwhile, the others
// ask again.
constexpr std::chrono::milliseconds kMaxConnecting = std::chrono::seconds(20);
// For an answer of the launcher, after the time that all ranks have to ask.
constexpr std::chrono::milliseconds kMaxAnswering = std::chrono::minutes(1);

// Why the loss of a rank would be an error; empty: it would not.
std::string reason_against_loss(const PreparedRun& run, const SessionOptions& options) {
  const auto& config = run.config;
  const auto& parallel = config.distributed.data_parallel;
  if (!parallel.virtual_shards)
    return "needs distributed.virtual_shards, with which the result does not depend on the number "
           "of ranks";
  if (parallel.shard == ShardStrategy::Full && config.train.ema.decay)
    return "cannot be combined with distributed.shard: full and train.ema: the parts of the "
           "average would be lost with their ranks; use distributed.shard: gradients";
  const auto layout = layout_of(run);
  if (!layout.on_cpu) return "needs CPUs: distributed.device: cpu";
  const bool has_nodes = options.ranks.loss_fd.has_value();
  if (!has_nodes && !layout.shares_memory())
    return "needs ranks that share memory: distributed.device: cpu, and distributed.backend: auto "
           "or shm";
  if (has_nodes && layout.backend == BackendChoice::Shm)
    return "needs distributed.backend: auto or gloo on several nodes";
  if (!layout.shares_memory() && parallel.shard != ShardStrategy::None)
    return "needs distributed.shard: none on several nodes or with distributed.backend: gloo: the "
           "state that only one rank has would be lost with it";
  if (config.tracking.ranks.kind != tracking::RankSelection::Kind::Main)
    return "needs tracking.ranks: main";
  if (options.own_run) return "needs a run that the session creates, not SessionOptions::own_run";
  return "";
}

launch::GroupRequest::Kind request_of(const std::optional<Departure>& departure,
                                      SlowRankPolicy policy) {
  using Request = launch::GroupRequest::Kind;
  if (!departure) return Request::Changing;
  if (departure->slowness == 0) return Request::Leaving;
  return policy == SlowRankPolicy::Replace ? Request::Replaced : Request::Excluded;
}

// Rank 0 serves the store of the group on a socket on which it listens already.
TcpRendezvous rendezvous_of(const launch::GroupAnswer& place, launch::GroupMember& member) {
  return {.host = place.host,
          .port = static_cast<uint16_t>(place.port),
          .listen_fd = member.take_listener(place),
          .prefix = "group"};
}

}  // namespace

void verify_can_lose_ranks(const PreparedRun& run, const SessionOptions& options) {
  if (const auto reason = reason_against_loss(run, options); !reason.empty())
    throw config_error("--on-rank-loss continue " + reason);
}

GroupTraining::GroupTraining(const GroupTrainingParts& parts)
    : parts_(parts), inputs_(checksum_of_inputs(parts.run)) {
  if (parts.member && parts.options.ranks.loss_fd)
    loss_watch_.emplace(*parts.options.ranks.loss_fd,
                        [&world = parts.world] { world.interrupt(); });
}

TrainerParts GroupTraining::trainer_parts() {
  TrainerParts parts{parts_.world, parts_.run, parts_.record.tracker(), parts_.record.dir(),
                     parts_.stop_signals};
  if (!parts_.member) return parts;
  parts.change_group = [this](auto step, const auto& departure) {
    return change_group(step, departure);
  };
  parts.is_invited = [member = parts_.member] { return member->take_invitation(); };
  return parts;
}

bool GroupTraining::change_group(int64_t step, const std::optional<Departure>& departure) {
  const auto& config = parts_.run.config.distributed;
  parts_.world.progress().enter(Phase::Connecting);
  place_ = ask({.kind = request_of(departure, config.slow_ranks.policy),
                .step = step,
                .slowness = departure ? departure->slowness : 0},
               config.timeout.value);
  return place_.kind != Kind::Refused;
}

// `patience`: for the others to ask, too; nullopt: any time.
launch::GroupAnswer GroupTraining::ask(launch::GroupRequest request,
                                       std::optional<std::chrono::milliseconds> patience) {
  request.inputs = inputs_;
  if (!patience) return parts_.member->ask(request, std::nullopt);
  request.patience_ms = patience->count();
  return parts_.member->ask(request, *patience + kMaxAnswering);
}

// After a failure: ranks that did not notice it may wait for this one.
void GroupTraining::leave() {
  parts_.world.interrupt();
  if (loss_watch_) loss_watch_->leave();
}

Trainer& GroupTraining::create() {
  trainer_ = Trainer::create(trainer_parts());
  return *trainer_;
}

bool GroupTraining::join() {
  const auto kind = ask_and_enter({}, std::nullopt);
  if (kind == Kind::Differs)
    throw config_error(
        "this process cannot join the running ranks: it sees another run file or other data than "
        "they do; both must be the same on every node");
  return kind == Kind::Join;
}

std::optional<EvaluationResult> GroupTraining::run() {
  const auto timeout = parts_.run.config.distributed.timeout.value;
  while (true) {
    try {
      return trainer_->run();
    } catch (const GroupChange&) {
      if (loss_watch_) loss_watch_->leave();
      const auto kind = enter_or_ask(trainer_->hand_over(), timeout, place_);
      if (kind == Kind::End) return std::nullopt;
    } catch (const PeerError&) {
      if (!parts_.member) throw;
      leave();
      const auto kind = ask_and_enter(trainer_->hand_over(), parts_.world.timeout());
      if (kind == Kind::Refused) throw;
      if (kind == Kind::End) return std::nullopt;
    }
  }
}

GroupTraining::Kind GroupTraining::ask_and_enter(
    HandedOver state, std::optional<std::chrono::milliseconds> patience) {
  const bool has_state = !state.checkpoint.model.empty();
  parts_.world.progress().enter(Phase::Connecting);
  const auto step = has_state ? state.checkpoint.head.position.step : launch::kNoState;
  // In a new group, they may take longer.
  std::optional<std::chrono::milliseconds> later;
  if (patience) later = parts_.run.config.distributed.timeout.value;
  return enter_or_ask(std::move(state), later, ask({.step = step}, patience));
}

GroupTraining::Kind GroupTraining::enter_or_ask(std::optional<HandedOver> state,
                                                std::optional<std::chrono::milliseconds> patience,
                                                launch::GroupAnswer place) {
  if (place.kind == Kind::Wait) {
    // From now on this is a spare. Its state would soon be old, and may be in memory of all old ranks.
    trainer_.reset();
    state.emplace();
    place = parts_.member->wait();
  }
  if (place.kind != Kind::Join) return place.kind;
  trainer_.reset();
  if (!place.loss.is_empty()) unrecorded_.push_back(place.loss);
  try {
    enter(*state, place);
    return Kind::Join;
  } catch (const PeerError&) {
    // Another rank of the new group was lost. If none was, the next request is refused.
    leave();
    const auto kind = ask_and_enter(std::move(*state), patience);
    if (kind == Kind::Refused) throw;
    return kind;
  }
}

void GroupTraining::record_loss(const RankLoss& loss) {
  const auto dir = parts_.record.dir();
  if (!tracking::is_main(parts_.options.ranks.rank) || tracking::is_recorded(dir, loss)) return;
  const bool all_left = std::ranges::all_of(loss.ranks, &LostRank::has_left);
  // The log first: a rank 0 that is killed between the two leaves the rest to the next one.
  if (!takes_log_ || !tracking::is_logged(dir, loss))
    parts_.record.tracker().text(all_left ? TextLevel::Info : TextLevel::Warning, describe(loss));
  try {
    tracking::record_rank_loss(dir, loss);
  } catch (const Error&) {
    // The disk is full; the log of the run contains the same.
  }
}

void GroupTraining::enter(const HandedOver& state, const launch::GroupAnswer& place) {
  auto& [world, options, run, record, member, stop_signals] = parts_;
  auto ranks = options.ranks;
  ranks.rank = place.rank;
  ranks.local_rank = place.local_rank;
  ranks.world_size = place.world_size;
  ranks.local_world_size = place.local_world_size;
  ranks.is_spare = false;
  options.ranks = ranks;
  change_ranks(run, ranks);
  const auto timeout = run.config.distributed.timeout.value;
  auto connection = world_options(ranks, run.config.distributed, nullptr);
  connection.rendezvous = rendezvous_of(place, *member);
  connection.timeout = std::min(timeout, kMaxConnecting);
  world.progress().begin(ranks.rank);
  world.progress().enter(Phase::Connecting);
  if (loss_watch_) loss_watch_->enter(place.group);
  world.regroup(connection);
  world.set_timeout(timeout);
  auto pids = verify_ranks_agree(world, run);
  const auto& position = state.checkpoint.head.position;
  const auto total_steps = length_of_run(run.config.train, run.plan, position).total_steps;
  const auto planned = planned_length(run.config.train, total_steps);
  takes_log_ = record.change_ranks(planned, position.step, std::move(pids)) || takes_log_;
  for (const auto& loss : unrecorded_) record_loss(loss);
  world.progress().enter(Phase::Building);
  trainer_ = Trainer::create(trainer_parts());
  trainer_->take_over(state, takes_log_);
  takes_log_ = false;
  unrecorded_.clear();  // on all ranks, since rank 0 has recorded them
}

}  // namespace lockstep::trainer
