// When and where checkpoints are written: while training goes on, from a copy of the state, or
// while it waits. The main rank writes, or all ranks that see its directory, each its share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/background_work.h"
#include "trainer/checkpoint/checkpoint_keeping.h"
#include "trainer/checkpoint/checkpoint_note.h"
#include "trainer/checkpoint/checkpoint_shares.h"
#include "trainer/checkpoint/checkpoint_publisher.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/checkpoint/training_state.h"

namespace lockstep::trainer {

struct SavingOptions {
  std::filesystem::path checkpoints;
  KeepOptions keep;
  bool in_background = true;
  bool all_write = false;
};

// Thread: the training thread.
class CheckpointSaver {
 public:
  // `world` and `tracker` outlive this.
  CheckpointSaver(World& world, Tracker& tracker, SavingOptions options);

  // Collective. In the background: makes room for the copies. When the optimizer has all of its
  // state.
  void prepare(const TrainingState& state);

  // Collective. In the background: returns when the state is copied; one checkpoint at a time, so
  // it first waits for the one before. Otherwise, and for the last one of the run, which nothing is
  // to be done beside: when the checkpoint is on the disk. Then older
  // ones are removed and, if asked for, it is published. Throws Environment on a rank that could
  // not write this one or the one before, PeerError on the others.
  void save(const TrainingState& state, std::optional<CheckpointToPublish> to_publish,
            bool is_last);

  // Whether this rank is writing in the background.
  bool is_busy() const { return background_ && background_->is_busy(); }

  // Whether a checkpoint is on the disk that save() was called for, as far as the main rank knows.
  bool has_checkpoint() const { return has_checkpoint_; }

  // Once a step: throws Environment when the checkpoint under way could not be written, and tells
  // the tracker what was published. `none_is_busy`: no rank was in this step; the same on all
  // ranks. What they have written together becomes a checkpoint then. No wait but for the others to
  // come here. `is_saved`: has_checkpoint() of the main rank, which nodes with other disks note.
  void look(bool none_is_busy, bool is_saved);

  // Collective: returns when all is on the disk. Throws as save() does.
  void finish();

 private:
  // What this rank does about the checkpoint under way:
  //
  //   Idle -> Reserving -> Idle                                prepare()
  //   Idle -> Writing -> Idle                                  one rank writes all of it
  //   Idle -> Writing -> AwaitingShares -> Committing -> Idle  several do
  //
  // Reserving, Writing and Committing may be at work in the background. A rank that writes nothing
  // is not in Writing, and only the main rank is in Committing.
  enum class State { Idle, Reserving, Writing, AwaitingShares, Committing };

  // The checkpoint under way: of the background's work while that is busy.
  struct UnderWay {
    CheckpointHead head;
    std::optional<CheckpointToPublish> to_publish;
    nlohmann::ordered_json written;  // by this rank, of its share
    std::optional<Published> published;
  };

  void agree_on_writers();
  void work(State state, bool in_background, std::function<void()> act);
  void write(Checkpoint share, bool in_background);
  void commit(const std::vector<nlohmann::ordered_json>& written);
  void bring_together(bool in_background);
  void complete(bool in_background);
  void wait();
  void note_checkpoint();

  World& world_;
  Tracker& tracker_;
  SavingOptions options_;
  std::optional<CheckpointWriters> writers_;
  Snapshot model_, optimizer_, ema_;
  State state_ = State::Idle;
  UnderWay under_way_;
  CheckpointNote place_;     // of the main rank's checkpoints
  int64_t first_step_ = -1;  // that save() was called at; -1: not yet
  bool has_checkpoint_ = false, is_noted_ = false;
  std::unique_ptr<BackgroundWork> background_;  // on a rank that writes; last: joined first
};

}  // namespace lockstep::trainer
