#include "data/loader/batch_scheduler.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>

#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

// Each as "BATCH:BEGIN-END ".
std::string claim_all(BatchScheduler& scheduler) {
  std::string pieces;
  while (const auto piece = scheduler.claim())
    pieces += fmt::format("{}:{}-{} ", piece->batch, piece->begin, piece->end);
  return pieces;
}

TEST_CASE("batch scheduler: a pass is cut into batches, the last one smaller or dropped") {
  const BatchCut cut{.num_samples = 10, .batch_size = 4};
  CHECK(cut.num_batches() == 3);
  CHECK(cut.rows_of(1) == 4);
  CHECK(cut.rows_of(2) == 2);
  CHECK(BatchCut{.num_samples = 10, .batch_size = 4, .drop_last = true}.num_batches() == 2);
  CHECK(BatchCut{.num_samples = 3, .batch_size = 4, .drop_last = true}.num_batches() == 0);
  CHECK(BatchCut{.num_samples = 0, .batch_size = 4}.num_batches() == 0);
}

TEST_CASE("batch scheduler: the last batches of a pass have the same size") {
  const BatchCut cut{.num_samples = 20, .batch_size = 4, .group = 2};  // 4, 4, 4, 4, 2, 2
  CHECK(cut.num_batches() == 6);
  CHECK(cut.rows_of(3) == 4);
  CHECK(cut.rows_of(4) == 2);
  CHECK(cut.begin_of(3) == 12);
  CHECK(cut.begin_of(5) == 18);
  CHECK(BatchCut{.num_samples = 20, .batch_size = 4, .drop_last = true, .group = 2}.num_batches() ==
        4);
}

TEST_CASE("batch scheduler: batches are claimed in order, up to the capacity") {
  BatchScheduler scheduler({.num_samples = 10, .batch_size = 2}, /*rows_per_piece=*/2, /*ahead=*/2);
  CHECK(claim_all(scheduler) == "0:0-2 1:0-2 ");
  CHECK_FALSE(scheduler.can_claim());
  CHECK_FALSE(scheduler.all_are_claimed());
  scheduler.finish({0, 0, 2});
  CHECK_FALSE(scheduler.can_claim());  // taking a batch frees capacity
  scheduler.take();
  CHECK(claim_all(scheduler) == "2:0-2 ");
}

TEST_CASE("batch scheduler: a batch in pieces is ready when its last piece is") {
  BatchScheduler scheduler({.num_samples = 5, .batch_size = 5}, /*rows_per_piece=*/2, /*ahead=*/1);
  CHECK(claim_all(scheduler) == "0:0-2 0:2-4 0:4-5 ");
  CHECK(scheduler.all_are_claimed());
  CHECK_FALSE(scheduler.finish({0, 4, 5}));
  CHECK_FALSE(scheduler.finish({0, 0, 2}));
  CHECK_FALSE(scheduler.next_is_ready());
  CHECK(scheduler.finish({0, 2, 4}));
  CHECK(scheduler.next_is_ready());
}

TEST_CASE("batch scheduler: a batch that is ready early waits for the one before it") {
  BatchScheduler scheduler({.num_samples = 3, .batch_size = 1}, /*rows_per_piece=*/1, /*ahead=*/3);
  claim_all(scheduler);
  CHECK_FALSE(scheduler.finish({1, 0, 1}));
  CHECK(scheduler.num_ready() == 1);
  CHECK_FALSE(scheduler.next_is_ready());
  CHECK(error_of([&] { scheduler.take(); }).starts_with("bug: "));
  CHECK(scheduler.finish({0, 0, 1}));
  scheduler.take();
  CHECK(scheduler.next() == 1);
  CHECK(scheduler.next_is_ready());
  scheduler.take();
  CHECK_FALSE(scheduler.next_is_ready());
  CHECK(scheduler.num_ready() == 0);
}

TEST_CASE("batch scheduler: pieces of a started batch are claimed before another batch") {
  BatchScheduler scheduler({.num_samples = 8, .batch_size = 4}, /*rows_per_piece=*/2, /*ahead=*/1);
  REQUIRE(scheduler.claim().has_value());
  CHECK(scheduler.can_claim());
  CHECK(claim_all(scheduler) == "0:2-4 ");
}

}  // namespace
}  // namespace lockstep::data
