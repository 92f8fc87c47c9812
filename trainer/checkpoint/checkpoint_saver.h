// Writes checkpoints: in the background, from a copy of the state, or while training waits. The
// main rank writes them, or all ranks that see its directory, each its share.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>

#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "trainer/checkpoint/checkpoint_keeping.h"
#include "trainer/checkpoint/checkpoint_mirror.h"
#include "trainer/checkpoint/checkpoint_note.h"
#include "trainer/checkpoint/checkpoint_publisher.h"
#include "trainer/checkpoint/checkpoint_shares.h"
#include "trainer/checkpoint/snapshot.h"
#include "trainer/checkpoint/training_state.h"
#include "trainer/state/background_work.h"

namespace lockstep::trainer {

struct SavingOptions {
  std::filesystem::path checkpoints;
  KeepOptions keep;
  bool in_background = true;
  bool all_write = false;
  ExportedFiles exported;
  CheckpointMirror* mirror = nullptr;  // null: none; outlives the saver
};

// Thread: the training thread.
class CheckpointSaver {
 public:
  // `world` and `tracker` outlive this.
  CheckpointSaver(World& world, Tracker& tracker, SavingOptions options);

  // Collective. In the background: reserves memory for the copies. Call once the optimizer has all
  // of its state.
  void prepare(const TrainingState& state);

  // Collective. In the background: waits for the previous checkpoint, and returns when the state is
  // copied. Otherwise, and for the last checkpoint of the run: returns when it is on disk. Older
  // ones are then removed and, if requested, it is published. Throws Environment on a rank that
  // could not write this checkpoint or the previous one, PeerError on the others.
  void save(const TrainingState& state, std::optional<CheckpointToPublish> to_publish,
            bool is_last);

  // Whether this rank is writing in the background.
  bool is_busy() const { return background_ && background_->is_busy(); }

  // Whether a checkpoint of save() is on disk; authoritative on the main rank.
  bool has_checkpoint() const { return has_checkpoint_; }

  // Call once per step: throws Environment if the pending checkpoint could not be written, and
  // records what was published. `none_is_busy`: no rank was writing in this step; the same on all
  // ranks. If so, collectively commits the shares; waits only for the other ranks to call this.
  // `is_saved`: has_checkpoint() of the main rank; nodes with separate disks then write a note.
  void poll(bool none_is_busy, bool is_saved);

  // Collective: returns when everything is on disk. Throws as save() does.
  void finish();

 private:
  // State of this rank for the pending checkpoint:
  //
  //   Idle -> Reserving -> Idle                                prepare()
  //   Idle -> Writing -> Idle                                  one rank writes all of it
  //   Idle -> Writing -> AwaitingShares -> Committing -> Idle  several do
  //
  // Reserving, Writing and Committing may run in the background. A rank that writes nothing is
  // never in Writing, and only the main rank is in Committing.
  enum class State { Idle, Reserving, Writing, AwaitingShares, Committing };

  // The pending checkpoint: owned by the background work while it is busy.
  struct PendingCheckpoint {
    CheckpointHead head;
    std::optional<CheckpointToPublish> to_publish;
    nlohmann::ordered_json written;  // by this rank, for its share
    std::optional<Published> published;
  };

  void agree_on_writers();
  void work(State state, bool in_background, std::function<void()> act);
  void write(Checkpoint share, StateStream& divided, bool in_background);
  void commit(const std::vector<nlohmann::ordered_json>& written);
  void combine_shares(bool in_background);
  void complete(bool in_background);
  void wait();
  void note_checkpoint();

  World& world_;
  Tracker& tracker_;
  SavingOptions options_;
  std::optional<CheckpointWriters> writers_;
  Snapshot model_, optimizer_, ema_;
  State state_ = State::Idle;
  PendingCheckpoint pending_;
  CheckpointNote location_;  // of the main rank's checkpoints
  int64_t first_step_ = -1;  // of the first save(); -1: none yet
  bool has_checkpoint_ = false, is_noted_ = false;
  std::unique_ptr<BackgroundWork> background_;  // on a rank that writes; last: joined first
};

}  // namespace lockstep::trainer
