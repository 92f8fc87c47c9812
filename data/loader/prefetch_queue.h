// Batches read ahead by threads and returned in order.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "data/loader/batch_reader.h"
#include "data/loader/loader_options.h"

namespace lockstep::data {

// Thread: take(), num_ready() and next_is_ready() belong to one thread. The destructor may run at
// any time: it waits until each worker has finished its current read, but after a timeout of the
// last take(), it leaves blocked workers behind.
class PrefetchQueue {
 public:
  // begin() and read() of `reader` are called by this only. Requires at least one batch and one
  // worker.
  PrefetchQueue(std::shared_ptr<BatchReader> reader, const LoaderOptions& options);
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
  struct State;

  const std::string name_;  // of the data, for errors
  const std::chrono::milliseconds timeout_;
  const std::shared_ptr<State> state_;
  const bool shares_batches_;  // several workers read one batch
  std::vector<std::jthread> workers_;
  bool has_timed_out_ = false;  // the last take()
};

}  // namespace lockstep::data
