// Reads batches of a dataset, whole or in pieces. Samples that cannot be loaded may be skipped:
// their batch is then smaller. Errors name data, batch and samples.
#pragma once

#include <cstdint>
#include <exception>
#include <memory>
#include <set>
#include <vector>

#include "data/batch_memory.h"
#include "data/loader/batch_scheduler.h"
#include "data/loader/loader_options.h"
#include "data/loader/shards_ahead.h"
#include "data/sampling/index_sequence.h"
#include "lockstep/batch.h"
#include "lockstep/dataset.h"

namespace lockstep::data {

// The result of reading rows of a batch.
struct ReadRows {
  std::set<int64_t> bad;  // could not be loaded, to be skipped
  std::exception_ptr error = nullptr;
};

struct ReadBatch {
  Batch batch;
  ReadRows rows = {};  // all that were read; the error of the first that failed
};

// Memory of batches is reused when no longer referenced, for datasets with a layout().
//
// Thread: begin() one at a time; the rest may be called concurrently for disjoint pieces.
class BatchReader {
 public:
  // Holds `dataset`, if a shared_ptr owns it; otherwise it must outlive the reader. Throws Bug for
  // options outside their range.
  BatchReader(const Dataset& dataset, IndexSequence indices, const LoaderOptions& options);

  const BatchCut& cut() const { return cut_; }

  // The samples of a batch, including those that cannot be loaded.
  std::vector<int64_t> samples_of(int64_t batch) const { return indices_of(whole(batch)); }

  // Whether pieces of a batch can be read separately.
  bool is_divisible() const { return !layout_.empty(); }

  // Allocates the batch if the dataset fills it in place; may return an error.
  ReadBatch begin(int64_t batch);

  // Reads into the batch of begin(): in place, or as a whole if it is not divisible.
  ReadRows read(const BatchPiece& piece, Batch& batch) const;

  // begin() and all rows of it.
  ReadBatch read_whole(int64_t batch);

  // The batch without its bad rows. Throws its error, and Environment if no row is left.
  Batch finish(ReadBatch read) const;

 private:
  BatchPiece whole(int64_t batch) const { return {batch, 0, cut_.rows_of(batch)}; }
  int64_t place_of(const BatchPiece& piece) const;
  std::vector<int64_t> indices_of(const BatchPiece& piece) const;
  void get_batch(const std::vector<int64_t>& indices, Batch& batch) const;
  void fill(const BatchPiece& piece, const Batch& batch) const;
  std::set<int64_t> read_rows(const BatchPiece& piece, Batch& batch) const;
  std::set<int64_t> read_one_by_one(const BatchPiece& piece, Batch& batch) const;
  std::exception_ptr described(const BatchPiece& piece) const;

  const Dataset& dataset_;
  const std::shared_ptr<const Dataset> owner_;  // of it; may be null
  const IndexSequence indices_;
  ShardsAhead ahead_;
  const LoaderOptions options_;
  const BatchCut cut_;
  const std::vector<FieldLayout> layout_;
  BatchMemory memory_;
};

}  // namespace lockstep::data
