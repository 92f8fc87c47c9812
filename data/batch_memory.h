// Memory of batches, used again and again: fresh memory costs page faults, page-locked memory far
// more.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "data/dataset.h"

namespace lockstep {

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

  // A batch for the samples `indices` (at most options.rows): `indices` set, fields of undefined
  // content.
  Batch take(std::span<const int64_t> indices);

  // Batches whose memory is kept.
  size_t size() const { return kept_.size(); }

 private:
  Batch allocate() const;

  const std::vector<FieldLayout> layout_;
  const BatchMemoryOptions options_;
  std::vector<Batch> kept_;
};

}  // namespace lockstep
