#include "data/loader/batch_scheduler.h"

#include "lockstep/error.h"

namespace lockstep::data {

BatchScheduler::BatchScheduler(const BatchCut& cut, int64_t rows_per_piece, int64_t ahead)
    : cut_(cut),
      num_batches_(cut.num_batches()),
      rows_per_piece_(rows_per_piece),
      pieces_left_(static_cast<size_t>(ahead), kNotBegun) {
  check(ahead >= 1 && rows_per_piece >= 1, "ahead and rows_per_piece must be at least 1");
}

bool BatchScheduler::can_claim() const {
  if (all_are_claimed()) return false;
  return rows_claimed_ > 0 || claimed_ < taken_ + static_cast<int64_t>(pieces_left_.size());
}

std::optional<BatchPiece> BatchScheduler::claim() {
  if (!can_claim()) return std::nullopt;
  const auto rows = cut_.rows_of(claimed_);
  if (rows_claimed_ == 0)
    pieces_left_[place_of(claimed_)] = (rows + rows_per_piece_ - 1) / rows_per_piece_;
  const BatchPiece piece{claimed_, rows_claimed_, std::min(rows, rows_claimed_ + rows_per_piece_)};
  rows_claimed_ = piece.end;
  if (rows_claimed_ == rows) {
    ++claimed_;
    rows_claimed_ = 0;
  }
  return piece;
}

bool BatchScheduler::finish(const BatchPiece& piece) {
  return --pieces_left_[place_of(piece.batch)] == 0 && piece.batch == taken_;
}

void BatchScheduler::take() {
  check(next_is_ready(), "the next batch is not ready");
  pieces_left_[place_of(taken_)] = kNotBegun;
  ++taken_;
}

}  // namespace lockstep::data
