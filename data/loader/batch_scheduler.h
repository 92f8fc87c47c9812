// Which rows of which batch are loaded next, and which batches are ready: the bookkeeping of a
// prefetching loader, independent of data and threads.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep::data {

// How a pass over samples is cut into batches.
struct BatchCut {
  int64_t num_samples = 0, batch_size = 1;
  bool drop_last = false;  // drop an incomplete last batch
  int64_t group = 1;       // consecutive batches of the same size

  int64_t num_batches() const { return num_full() + (num_rest() > 0 && !drop_last ? group : 0); }
  int64_t rows_of(int64_t batch) const {
    return batch < num_full() ? batch_size : num_rest() / group;
  }
  // The position of the first row of a batch.
  int64_t begin_of(int64_t batch) const {
    const auto full = std::min(batch, num_full());
    return full * batch_size + (batch - full) * (num_rest() / group);
  }

 private:
  int64_t num_full() const { return num_samples / (batch_size * group) * group; }
  int64_t num_rest() const { return num_samples - num_full() * batch_size; }
};

// Rows [begin, end) of a batch, loaded by one worker.
struct BatchPiece {
  int64_t batch, begin, end;
};

// Invariant: pieces are claimed in order, batches are taken in order, and at most `ahead` batches
// are claimed but not taken.
//
// Thread: one at a time.
class BatchScheduler {
 public:
  // Requires: ahead >= 1, rows_per_piece >= 1.
  BatchScheduler(const BatchCut& cut, int64_t rows_per_piece, int64_t ahead);

  // The next unclaimed piece; nullopt while there is no room for its batch, and after the last one.
  std::optional<BatchPiece> claim();
  bool can_claim() const;
  bool all_are_claimed() const { return claimed_ == num_batches_; }

  // Marks `piece` as loaded. Returns whether this makes the next batch to be taken ready.
  bool finish(const BatchPiece& piece);

  // The batch that is taken next.
  int64_t next() const { return taken_; }
  bool next_is_ready() const { return pieces_left_[place_of(taken_)] == 0; }
  // Batches that are ready and not taken.
  int64_t num_ready() const { return std::ranges::count(pieces_left_, 0); }

  // Takes it: there is room for one batch more. Requires next_is_ready().
  void take();

  // The slot of a batch among the `ahead` ones.
  size_t place_of(int64_t batch) const { return static_cast<size_t>(batch) % pieces_left_.size(); }

 private:
  static constexpr int64_t kNotBegun = -1;

  const BatchCut cut_;
  const int64_t num_batches_, rows_per_piece_;
  int64_t claimed_ = 0;               // batches below this have no unclaimed piece
  int64_t rows_claimed_ = 0;          // of the batch after those
  int64_t taken_ = 0;                 // batches below this were taken
  std::vector<int64_t> pieces_left_;  // to be loaded, of the batch in each place
};

}  // namespace lockstep::data
