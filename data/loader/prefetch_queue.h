// Batches read ahead by threads and returned in order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/system/mutex.h"
#include "data/loader/batch_reader.h"
#include "data/loader/batch_scheduler.h"
#include "data/loader/loader_options.h"

namespace lockstep::data {

// Thread: take(), num_ready() and next_is_ready() belong to one thread. The destructor may run at
// any time: it waits until each worker has finished its current read.
class PrefetchQueue {
 public:
  // `reader` must outlive this and is used exclusively. Requires at least one batch and one worker.
  PrefetchQueue(BatchReader& reader, const LoaderOptions& options);
  ~PrefetchQueue();
  PrefetchQueue(const PrefetchQueue&) = delete;
  PrefetchQueue& operator=(const PrefetchQueue&) = delete;

  // The next batch. Requires that there is one more. Throws Environment if it is not ready within
  // the timeout; the following call waits for it again.
  ReadBatch take();

  // Number of ready batches.
  int64_t num_ready();
  bool next_is_ready();

 private:
  struct Claim {
    BatchPiece piece;
    ReadBatch* place;
    bool is_lost;  // the batch has failed already
  };

  void end();
  void work();
  std::optional<Claim> claim();
  void finish(const Claim& claim, ReadRows rows);

  BatchReader& reader_;
  const std::string name_;  // of the data, for errors
  const std::chrono::milliseconds timeout_;
  const int64_t rows_per_piece_;
  const bool shares_batches_;  // several workers read one batch

  Mutex mutex_;
  BatchScheduler scheduler_ GUARDED_BY(mutex_);
  // Batches from their first claim until they are taken. The workers that read a batch own its
  // tensors until no piece is left; the rest is guarded.
  std::vector<ReadBatch> places_ GUARDED_BY(mutex_);
  bool ends_ GUARDED_BY(mutex_) = false;  // the workers must exit
  std::condition_variable room_;          // a batch was taken, or ends_ is set
  std::condition_variable ready_;         // the batch that is taken next is ready
  std::vector<std::jthread> workers_;     // last: joined before anything they use is gone
};

}  // namespace lockstep::data
