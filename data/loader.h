// Turns a rank's list of indices into batches, loaded ahead by threads.
// In: a Dataset, the indices of this rank in this epoch. Out: the batches, in that order.
// Samples that cannot be loaded may be left out: their batch is then smaller.
//
// Invariant: the batches and their order depend on neither the number of threads nor their timing.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "data/batch.h"
#include "data/batch_memory.h"
#include "data/dataset.h"
#include "data/device_transfer.h"
#include "data/index_sequence.h"
#include "data/loader_options.h"

namespace lockstep {

// One pass over the indices: make a new one per epoch.
//
// Note [Memory]: at most `prefetch` batches are loaded ahead; with those a consumer holds, that is
// all the memory there is, for any number of workers. Batches of a dataset with a layout() are
// filled in place, in memory that is reused once nobody refers to it; where there are more workers
// than batches to load ahead, several share a batch.
//
// Thread: next() and take_stats() belong to one thread. The destructor may come at any time: it
// stops the workers after what each of them is loading.
class Loader {
 public:
  // `dataset` must outlive the loader. Throws Bug for options outside their range.
  Loader(const Dataset& dataset, IndexSequence indices, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; nothing after the last one. Throws what loading this batch threw, with the
  // names of data, batch and samples before it; the call after that goes on with the following
  // batch. Throws Environment when the batch is not there within the timeout.
  std::optional<Batch> next();

  // Of the whole pass.
  int64_t num_batches() const { return num_batches_; }
  int64_t num_samples() const { return indices_.size(); }

  // The batch that next() gives next.
  int64_t position() const { return position_; }

  // Since the last call; begins anew.
  LoaderStats take_stats() { return std::exchange(stats_, {}); }

 private:
  // A batch from its first claim until next() takes it. Its tensors belong to those who load it
  // until no piece is left, the rest is guarded.
  struct Slot {
    Batch batch;
    int64_t pieces_left = -1;  // -1: nobody has begun; 0: ready
    std::exception_ptr error;
    std::set<int64_t> bad_rows = {};  // could not be loaded, and are left out
  };
  // Rows [begin, end) of a batch, loaded by one worker.
  struct Piece {
    int64_t batch, begin, end;
  };
  struct Claim {
    Piece piece;
    Slot* slot;
    bool is_lost;  // the batch has failed already
  };

  int64_t rows_of(int64_t batch) const;
  Piece whole(int64_t batch) const { return {batch, 0, rows_of(batch)}; }
  int64_t place_of(const Piece& piece) const;
  std::vector<int64_t> indices_of(const Piece& piece) const;
  std::optional<Batch> next_loaded();
  Slot take();
  Slot load_here(int64_t batch);
  void allocate(Slot& slot, int64_t batch);
  std::set<int64_t> load(const Piece& piece, Batch& batch) const;
  void load_batch(const std::vector<int64_t>& indices, Batch& batch) const;
  void fill(const Piece& piece, const Batch& batch) const;
  std::set<int64_t> load_one_by_one(const Piece& piece, Batch& batch) const;
  void leave_out(Slot& slot) const;
  std::exception_ptr described(const Piece& piece) const;
  void work();
  std::optional<Claim> claim();
  void finish(const Claim& claim, std::set<int64_t> bad_rows, std::exception_ptr error);
  int64_t count_ready();
  bool next_is_ready();
  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }

  const Dataset& dataset_;
  const IndexSequence indices_;
  const LoaderOptions options_;
  const std::vector<FieldLayout> layout_;
  const int64_t num_batches_;
  const int64_t rows_per_piece_;
  int64_t position_ = 0;  // of next(); written by its thread alone
  LoaderStats stats_;
  std::unique_ptr<DeviceTransfer> transfer_;  // none: batches stay on the CPU
  std::exception_ptr failed_;                 // what next() throws: of a batch that was to travel

  std::mutex mutex_;  // guards what follows
  BatchMemory memory_;
  std::vector<Slot> slots_;
  int64_t claimed_ = 0;                // batches below this have no piece that nobody loads
  int64_t rows_claimed_ = 0;           // of the batch after those
  int64_t taken_ = 0;                  // batches below this were given out
  bool ends_ = false;                  // the workers are to end
  std::condition_variable room_;       // taken_ has grown, or ends_ is set
  std::condition_variable ready_;      // the slot of batch taken_ has become ready
  std::vector<std::jthread> workers_;  // last: joined before anything they use is gone
};

}  // namespace lockstep
