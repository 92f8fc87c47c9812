// Memory of batches, used again and again: fresh memory costs page faults, page-locked memory far
// more.
#pragma once

#include <cstdint>
#include <vector>

#include "lockstep/dataset.h"

namespace lockstep::data {

struct BatchMemoryOptions {
  int64_t rows = 0;          // samples of a batch at most
  size_t kept = 0;           // batches that are kept for reuse at most
  bool page_locked = false;  // for copies to a GPU beside its work
};

// Invariant: memory is given out again only when nobody refers to it any more, neither to the
// tensors nor to views of them. Whoever keeps a batch keeps its values.
//
// Thread: one at a time; the batches may be dropped by any thread.
class BatchMemory {
 public:
  // `layout`: may be empty; then batches have indices only.
  BatchMemory(std::vector<FieldLayout> layout, BatchMemoryOptions options);

  // A batch of so many samples (at most options.rows), its content undefined.
  Batch take(int64_t count);

  // Batches whose memory is kept.
  size_t size() const { return kept_.size(); }

 private:
  Batch allocate() const;

  const std::vector<FieldLayout> layout_;
  const BatchMemoryOptions options_;
  std::vector<Batch> kept_;
};

}  // namespace lockstep::data
