// When and where checkpoints are written: while training goes on, from a copy of the state, or
// while it waits. One rank writes; the others only take part.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>

#include "distributed/world.h"
#include "tracking/tracker.h"
#include "trainer/background_work.h"
#include "trainer/checkpoint.h"
#include "trainer/publishing.h"
#include "trainer/snapshot.h"
#include "trainer/training_state.h"

namespace lockstep {

struct SavingOptions {
  std::filesystem::path checkpoints;
  int64_t keep_last = 2;
  bool in_background = true;
};

// Thread: the training thread.
class Saving {
 public:
  // `world` and `tracker` outlive this.
  Saving(World& world, Tracker& tracker, SavingOptions options);

  // In the background: makes room for the copies. When the optimizer has all of its state.
  void prepare(const Model& model, const Optimizer& optimizer,
               const WeightAverage* average = nullptr);

  // Collective. In the background: returns when the state is copied; one checkpoint at a time, so
  // it first waits for the one before. Otherwise, and for the last one of the run, which nothing is
  // to be done beside: when the checkpoint is on the disk. Then older
  // ones are removed and, if asked for, it is published. Throws Environment on the rank that could
  // not write this one or the one before, PeerError on the others.
  void save(const TrainingState& state, std::optional<CheckpointToPublish> to_publish,
            bool is_last);

  // Once a step, no wait: throws Environment when the checkpoint under way could not be written,
  // and tells the tracker what was published.
  void look();

  // Whether this rank is writing a checkpoint in the background.
  bool is_busy() const { return background_ && background_->is_busy(); }

  // Collective: returns when all is on the disk. Throws as save() does.
  void finish();

 private:
  void wait();
  void write(const Checkpoint& checkpoint, const std::optional<CheckpointToPublish>& to_publish);

  World& world_;
  Tracker& tracker_;
  SavingOptions options_;
  Snapshot model_, optimizer_, ema_;
  std::optional<Published> published_;          // of the work that ended
  bool is_under_way_ = false;                   // since look() or wait() last saw it ended
  std::unique_ptr<BackgroundWork> background_;  // on the rank that writes; last: joined first
};

}  // namespace lockstep
