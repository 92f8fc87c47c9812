// Trains in one group of ranks after another: when ranks are lost, leave or join and the launcher was started
// with --on-rank-loss continue, the others keep their processes and their state, and form a new group.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/rank_loss.h"
#include "launch/workers/group_member.h"
#include "lockstep/session.h"
#include "lockstep/world.h"
#include "trainer/loop/handed_over.h"
#include "trainer/loop/trainer.h"
#include "trainer/prepared/prepared_run.h"
#include "trainer/recorded_run.h"

namespace lockstep::trainer {

// Throws Config, naming the setting, if the ranks of a run cannot continue without one of them.
void verify_can_lose_ranks(const PreparedRun& run, const SessionOptions& options);

// What it works with; outlives it. The ranks in `options` and `run` are kept up to date.
struct GroupTrainingParts {
  World& world;
  SessionOptions& options;
  PreparedRun& run;
  RecordedRun& record;
  launch::GroupMember* member = nullptr;  // null: the loss of a rank is an error
  const StopSignals* stop_signals = nullptr;
};

// Thread: the training thread.
class GroupTraining {
 public:
  // Throws Environment.
  explicit GroupTraining(const GroupTrainingParts& parts);

  // Collective: makes the trainer of the first group.
  Trainer& create();
  // Of a spare: waits for a place in a group and its state. Returns false if the job ended without
  // this process. Throws Config if it sees other data than the ranks.
  bool join();

  // Collective: Trainer::run(). nullopt: the job ended without this process.
  std::optional<EvaluationResult> run();

  Trainer* trainer() { return trainer_.get(); }  // null: there is none

 private:
  using Kind = launch::GroupAnswer::Kind;

  bool change_group(int64_t step, const std::optional<Departure>& departure);
  launch::GroupAnswer ask(launch::GroupRequest request,
                          std::optional<std::chrono::milliseconds> patience);
  void leave();
  Kind ask_and_enter(HandedOver state, std::optional<std::chrono::milliseconds> patience);
  Kind enter_or_ask(std::optional<HandedOver> state,  // never nullopt
                    std::optional<std::chrono::milliseconds> patience, launch::GroupAnswer place);
  void enter(const HandedOver& state, const launch::GroupAnswer& place);
  void record_loss(const RankLoss& loss);
  TrainerParts trainer_parts();

  GroupTrainingParts parts_;
  const uint32_t inputs_;             // see launch::GroupRequest
  launch::GroupAnswer place_;         // after change_group()
  std::vector<RankLoss> unrecorded_;  // also of groups that did not get to train
  bool takes_log_ = false;            // the last metrics are to be recorded again
  std::unique_ptr<Trainer> trainer_;
  std::optional<launch::LossWatch> loss_watch_;  // with several nodes
};

}  // namespace lockstep::trainer
