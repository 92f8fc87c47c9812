// Turns a rank's list of indices into batches, loaded ahead by threads.
// In: a Dataset, the indices of this rank in this epoch. Out: the batches, in that order.
//
// Invariant: the batches and their order depend on neither the number of threads nor their timing.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <span>
#include <thread>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"

namespace lockstep {

struct LoaderOptions {
  int64_t batch_size = 1;   // samples per batch of this rank, at least 1
  bool drop_last = false;   // leave out a last batch that is not full
  int64_t workers = 0;      // threads; 0 loads inside next()
  int64_t first_batch = 0;  // where to begin, for a resume in mid-epoch; in [0, num_batches()]
  // How long next() waits for one batch before it gives up.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// One pass over the indices: make a new one per epoch. At most two batches per worker are loaded
// ahead; a worker that is further waits for next().
//
// Thread: next() belongs to one thread. The destructor may come at any time: it stops the workers
// after the batch each of them is loading.
class Loader {
 public:
  // `dataset` must outlive the loader. Throws Bug for options outside their range.
  Loader(const Dataset& dataset, std::vector<int64_t> indices, LoaderOptions options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch; nothing after the last one. Rethrows what loading this batch threw; the call
  // after that goes on with the following batch. Throws Environment when the batch is not there
  // within the timeout.
  std::optional<Batch> next();

  // How many batches the whole pass has, those before first_batch included.
  int64_t num_batches() const { return num_batches_; }

  // The batch that next() gives next: what first_batch of a resumed pass must be.
  int64_t position() const { return position_; }

 private:
  // Where a batch waits from the end of its loading until next() takes it.
  struct Slot {
    std::optional<Batch> batch;
    std::exception_ptr error;
    bool ready() const { return batch.has_value() || error; }
  };

  Batch load(int64_t batch) const;
  void work(const std::stop_token& stop);
  std::optional<int64_t> claim(const std::stop_token& stop);
  Slot take();
  Slot& slot_of(int64_t batch) { return slots_[static_cast<size_t>(batch) % slots_.size()]; }

  const Dataset& dataset_;
  const std::vector<int64_t> indices_;
  const LoaderOptions options_;
  const int64_t num_batches_;
  int64_t position_;  // of next(); written by its thread alone

  std::mutex mutex_;  // guards slots_, claimed_ and taken_
  std::vector<Slot> slots_;
  int64_t claimed_;                    // batches below this have a worker
  int64_t taken_;                      // batches below this were given out
  std::condition_variable_any room_;   // taken_ has grown
  std::condition_variable ready_;      // the slot of batch taken_ has become ready
  std::vector<std::jthread> workers_;  // last: joined before anything they use is gone
};

}  // namespace lockstep
