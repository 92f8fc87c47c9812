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
  bool is_mirrored = false;            // the same on all ranks
  CheckpointMirror* mirror = nullptr;  // null: none on this rank; outlives the saver
};

// What the ranks were doing when a step began; the same on all of them.
struct SavingVote {
  bool none_is_busy = false;       // is_busy()
  bool none_is_uploading = false;  // is_uploading()
  bool is_saved = false;           // has_checkpoint() of the main rank
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

  // Whether this rank is uploading its share of a checkpoint.
  bool is_uploading() const { return options_.mirror && options_.mirror->is_busy(); }

  // Whether a checkpoint of save() is on disk; authoritative on the main rank.
  bool has_checkpoint() const { return has_checkpoint_; }

  // Call once per step: throws Environment if the pending checkpoint could not be written, and
  // records what was published. If no rank was writing, collectively commits the shares, and if none was
  // uploading, begins the next part of an upload; waits only for the other ranks to call this. Once
  // there is a checkpoint, nodes with separate disks write a note.
  void poll(const SavingVote& vote);

  // Collective: returns when the pending checkpoint is on disk. Throws as save() does.
  void complete() { complete(options_.in_background); }

  // Waits for what this rank writes in the background, also if that fails, but not longer than the others wait
  // for this rank. Not collective.
  void end_writing();

  // Collective: returns when everything is on disk, and in the mirror or its timeout is over. Throws as
  // save() does.
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

  // Parts of an upload by all writing ranks, the same on all ranks; CheckpointMirror has its functions.
  enum class Upload { Idle, Clearing, Uploading, Completing };

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
  void continue_upload();
  void report_uploads();
  void finish_upload();
  void wait();
  void note_checkpoint();

  World& world_;
  Tracker& tracker_;
  SavingOptions options_;
  std::optional<CheckpointWriters> writers_;
  Snapshot model_, optimizer_, ema_;
  State state_ = State::Idle;
  PendingCheckpoint pending_;
  Upload upload_ = Upload::Idle;
  int64_t uploaded_step_ = -1;           // unless Idle
  std::optional<int64_t> not_uploaded_;  // the latest step with shares that waits for its upload
  CheckpointNote location_;              // of the main rank's checkpoints
  int64_t first_step_ = -1;              // of the first save(); -1: none yet
  bool has_checkpoint_ = false, is_noted_ = false;
  std::unique_ptr<BackgroundWork> background_;  // on a rank that writes; last: joined first
};

}  // namespace lockstep::trainer
