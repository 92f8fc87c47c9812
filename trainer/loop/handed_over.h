// What a trainer works with, and what it leaves to the next one in the same process when ranks are
// lost (lockstep launch --on-rank-loss continue).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "distributed/sharding/kept_shards.h"
#include "lockstep/model.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint.h"
#include "trainer/loop/metrics_reporter.h"
#include "trainer/loop/step_times.h"
#include "trainer/loop/stop_controller.h"
#include "trainer/loop/stop_signals.h"
#include "trainer/prepared/prepared_run.h"
#include "trainer/state/loss_scaler.h"
#include "trainer/state/meter.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

// Everything outlives the trainer.
struct TrainerParts {
  World& world;
  PreparedRun& run;  // the trainer moves its `order`
  Tracker& tracker;
  std::filesystem::path run_dir;
  const StopSignals* stop_signals = nullptr;  // null: signals are not handled
  // hand_over() may be called; empty: it may not. Called on all ranks when one of them is to leave after
  // `step`, or others are to join: returns false if the group stays as it is. `departure`: of this one;
  // nullopt: it stays.
  std::function<bool(int64_t step, const std::optional<Departure>& departure)> change_group = {};
  // Whether processes wait for places, since the last call: all ranks are to call change_group.
  std::function<bool()> is_invited = {};
};

// Thrown by Trainer::run() after change_group returned true.
struct GroupChange final : std::exception {
  const char* what() const noexcept override { return "ranks leave or join"; }
};

// The same on all ranks that have it. A rank that joins has none: `checkpoint` is empty.
struct HandedOver {
  Checkpoint checkpoint;  // the live tensors, and the position after the last complete step
  std::shared_ptr<const distributed::KeptShards> kept = {};  // what is sharded; null: nothing is
  // Set if what follows that step is not complete (metrics, evaluation, checkpoint): whether it
  // ended an epoch.
  std::optional<bool> after_step;
  int64_t logged_step = -1, saved_step = -1, num_evaluations = 0;
  double last_lr = 0;
  at::Tensor last_grad_norm;
  std::optional<StepClock> clock;
  MetricsWindow metrics;
};

// What a step changes before the optimizer, and the loss scale: it is undone when the step is
// interrupted.
//
// Thread: the training thread.
class StepUndo {
 public:
  // `scaler`: null: none; outlives this.
  StepUndo(const Model& model, LossScaler* scaler);

  void begin(const Position& position, const Meter& meter);
  void commit() { is_pending_ = false; }
  // If a step has begun and is not committed: restores the buffers of the model, the scaler and the
  // arguments.
  void undo(Position& position, Meter& meter);

 private:
  std::vector<at::Tensor> buffers_;  // of the model
  bool is_pending_ = false;
  Position position_;
  Meter meter_;
  std::vector<at::Tensor> begun_;  // values of the buffers
  LossScaler* scaler_;
  LossScaleState scale_;
};

}  // namespace lockstep::trainer
