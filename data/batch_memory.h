// Reuses the memory of batches: new memory costs page faults, page-locked memory far more.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

struct BatchMemoryOptions {
  int64_t rows = 0;          // maximum samples of a batch
  size_t kept = 0;           // maximum batches kept for reuse
  bool page_locked = false;  // for asynchronous copies to a GPU
};

// Invariant: memory is reused only when no reference to the tensors, or to views of them, remains.
// The values of a batch that the caller holds never change.
//
// Thread: one at a time; the batches may be dropped by any thread.
class BatchMemory {
 public:
  // `layout`: may be empty; then batches have indices only.
  BatchMemory(std::vector<FieldLayout> layout, BatchMemoryOptions options);

  // A batch of `count` samples (at most options.rows) with undefined content.
  Batch take(int64_t count);

  // Batches whose memory is kept.
  size_t size() const { return kept_.size(); }

 private:
  Batch allocate() const;

  const std::vector<FieldLayout> layout_;
  const BatchMemoryOptions options_;
  std::vector<Batch> kept_;
};

// As lockstep::gather(), with another layout than the dataset's, such as one that fits these samples.
Batch gather(const Dataset& dataset, const SampleRequest& request, std::vector<FieldLayout> layout);

}  // namespace lockstep::data
