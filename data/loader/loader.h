// Turns a rank's list of indices into batches, prefetched by threads.
// In: a Dataset, the indices of this rank in this epoch. Out: the batches, in that order.
// BatchReader reads them, PrefetchQueue reads ahead, DeviceTransfer copies them to a GPU.
//
// Invariant: the batches and their order depend on neither the number of threads nor their timing.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "data/loader/batch_reader.h"
#include "data/loader/device_transfer.h"
#include "data/loader/loader_options.h"
#include "data/loader/prefetch_queue.h"
#include "data/sampling/index_sequence.h"
#include "lockstep/batch.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// One pass over the indices: create a new one per epoch.
//
// Note [Memory]: at most `prefetch` batches are loaded ahead; with those that the consumer holds,
// this bounds the memory for any number of workers. Batches of a dataset with a layout() are filled
// in place, in memory that is reused when no longer referenced; with more workers than batches to
// load ahead, several workers share a batch.
//
// Thread: next() and take_stats() belong to one thread. The destructor may run at any time.
class Loader {
 public:
  // `dataset` must outlive the loader; after a timeout a shared_ptr must own it, because a blocked
  // thread holds it for longer. Throws Bug for options outside their range.
  Loader(const Dataset& dataset, IndexSequence indices, const LoaderOptions& options);

  // The next batch; nullopt after the last one. Throws what loading the batch threw, prefixed with
  // data, batch and samples; the following call continues with the next batch. Throws Environment
  // if the batch is not ready within the timeout.
  std::optional<Batch> next();

  // Of the whole pass.
  int64_t num_batches() const { return reader_->cut().num_batches(); }
  int64_t num_samples() const { return reader_->cut().num_samples; }

  // The samples of batch `number`, including those that cannot be loaded.
  std::vector<int64_t> samples_of(int64_t number) const { return reader_->samples_of(number); }

  // The index of the batch that next() returns next.
  int64_t position() const { return position_; }

  // Statistics since the last call; resets them.
  LoaderStats take_stats() { return std::exchange(stats_, {}); }

 private:
  std::optional<Batch> next_loaded();
  ReadBatch take();
  void start_next();

  const std::shared_ptr<BatchReader> reader_;
  int64_t position_ = 0;
  LoaderStats stats_;
  std::unique_ptr<DeviceTransfer> transfer_;  // none: batches stay on the CPU
  std::exception_ptr failed_;                 // what next() throws: failed transfer of a batch
  std::optional<PrefetchQueue> queue_;        // none: batches are read inside next()
};

}  // namespace lockstep::data
