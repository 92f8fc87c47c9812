#include "core/config/launch_sections.h"

#include <catch2/catch.hpp>

using namespace lockstep;

TEST_CASE("batch sizes: every number of ranks that is allowed divides them, or the line says which",
          "[core]") {
  CHECK(batch_size_problem(96, {2, 3, 4}, "--nnodes 2:4").empty());
  CHECK(batch_size_problem(100, {2, 3, 4}, "--nnodes 2:4") ==
        "data.batch_size: 100 samples do not divide over 3 ranks, which --nnodes 2:4 allows (they "
        "do over 2, 4); the nearest that do: 96 or 108 (or set data.batch_remainder: uneven or "
        "pad, or data.per_rank_batch_size instead)");
  CHECK_THAT(batch_size_problem(7, {2, 3}, "--nnodes 2:3"),
             Catch::Contains("over 2, 3 ranks, which --nnodes 2:3 allows (no number that it allows "
                             "divides them); the nearest that do: 6 or 12"));
}

TEST_CASE("batch sizes: with too many numbers of ranks no size fits all, and the line is short",
          "[core]") {
  std::vector<int64_t> ranks;
  for (int64_t count = 1; count <= 64; ++count) ranks.push_back(count);
  const auto problem = batch_size_problem(4096, ranks, "--nnodes 1:64");
  CHECK_THAT(problem, Catch::Contains("over 3, 5, 6, 7, 9, 10, ... ranks"));
  CHECK_THAT(problem, !Catch::Contains("the nearest"));
}
