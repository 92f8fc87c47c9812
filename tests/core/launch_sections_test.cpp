#include "core/config/launch_sections.h"

#include <catch2/catch.hpp>

using namespace lockstep;

TEST_CASE("batch sizes: the message lists allowed numbers of ranks that do not divide them",
          "[core]") {
  CHECK(batch_size_problem(96, {2, 3, 4}, "--nnodes 2:4").empty());
  CHECK(batch_size_problem(100, {2, 3, 4}, "--nnodes 2:4") ==
        "data.batch_size: 100 is not divisible by 3 ranks, which --nnodes 2:4 allows (divisible by "
        "2, 4); nearest valid sizes: 96 or 108 (or set data.batch_remainder: uneven or pad, or "
        "data.per_rank_batch_size instead)");
  CHECK_THAT(batch_size_problem(7, {2, 3}, "--nnodes 2:3"),
             Catch::Contains("by 2, 3 ranks, which --nnodes 2:3 allows (no allowed number of ranks "
                             "divides it); nearest valid sizes: 6 or 12"));
}

TEST_CASE("batch sizes: with many numbers of ranks, the message is truncated and suggests no size",
          "[core]") {
  std::vector<int64_t> ranks;
  for (int64_t count = 1; count <= 64; ++count) ranks.push_back(count);
  const auto problem = batch_size_problem(4096, ranks, "--nnodes 1:64");
  CHECK_THAT(problem, Catch::Contains("by 3, 5, 6, 7, 9, 10, ... ranks"));
  CHECK_THAT(problem, !Catch::Contains("nearest"));
}
