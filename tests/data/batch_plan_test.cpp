#include "data/sampling/batch_plan.h"

#include <catch2/catch.hpp>

#include "data/sampling/sampler.h"
#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

LoaderConfig config_of(const std::string& yaml) {
  LoaderConfig config;
  read_fields(parse_config(yaml, "run.yaml"), "data", config);
  return config;
}

TEST_CASE("batch plan: the global batch is split over the ranks") {
  const auto plan =
      plan_batches(config_of("{batch_size: 96, workers: 5}"), 1000, {.world = 3, .local = 3});
  CHECK(plan.per_rank_batch_size == 32);
  CHECK(plan.global_batch_size == 96);
  CHECK(plan.workers_per_rank == 2);
  CHECK(plan.batches_per_epoch == 11);  // ceil(1000 / 3) = 334 samples per rank
}

TEST_CASE("batch plan: a batch per rank grows with the ranks") {
  const auto plan = plan_batches(config_of("{per_rank_batch_size: 10, workers: 0}"), 100,
                                 {.world = 4, .local = 2});
  CHECK(plan.per_rank_batch_size == 10);
  CHECK(plan.global_batch_size == 40);
  CHECK(plan.workers_per_rank == 0);
  CHECK(plan.batches_per_epoch == 3);
}

TEST_CASE("batch plan: defaults are a global batch of 128 and 2 workers per node") {
  const auto plan = plan_batches({}, 60000, {.world = 2, .local = 2});
  CHECK(plan.per_rank_batch_size == 64);
  CHECK(plan.workers_per_rank == 1);
  CHECK(plan.batches_per_epoch == 469);
}

TEST_CASE("batch plan: drop_last drops the incomplete batch") {
  const auto plan =
      plan_batches(config_of("{batch_size: 20, drop_last: true}"), 99, {.world = 2, .local = 2});
  CHECK(plan.batches_per_epoch == 4);  // 49 samples per rank
  CHECK(
      plan_batches(config_of("{batch_size: 20}"), 99, {.world = 2, .local = 2}).batches_per_epoch ==
      5);
}

TEST_CASE("batch plan: an indivisible batch keeps its position in the order") {
  for (const std::string rule : {"pad", "uneven"}) {
    const auto plan = plan_batches(config_of("{batch_size: 10, batch_remainder: " + rule + "}"), 25,
                                   {.world = 4, .local = 4});
    CHECK(plan.global_batch_size == 10);
    CHECK(plan.per_rank_batch_size == 3);
    CHECK(plan.batches_per_epoch == 3);
  }
}

// 22 samples in their order: batches of 10, 10 and 2 on 4 ranks.
std::vector<int64_t> of_rank(int64_t rank, BatchRule rule) {
  return DistributedSampler(22, {rank, 4}, {.shuffle = false, .batches = rule}).indices();
}

TEST_CASE("batch shares: padded batches repeat their first samples, the last one the epoch's") {
  using Indices = std::vector<int64_t>;
  CHECK(of_rank(0, {.batch_size = 10}) == Indices{0, 4, 8, 10, 14, 18, 20});
  CHECK(of_rank(1, {.batch_size = 10}) == Indices{1, 5, 9, 11, 15, 19, 21});
  CHECK(of_rank(2, {.batch_size = 10}) == Indices{2, 6, 0, 12, 16, 10, 0});
  CHECK(of_rank(3, {.batch_size = 10}) == Indices{3, 7, 1, 13, 17, 11, 1});
  CHECK(of_rank(3, {.batch_size = 10, .drop_last = true}) == Indices{3, 7, 1, 13, 17, 11});
}

TEST_CASE("batch shares: uneven batches repeat only samples that do not count") {
  using Indices = std::vector<int64_t>;
  const BatchRule rule = {.batch_size = 10, .uneven = true};
  CHECK(of_rank(0, rule) == Indices{0, 4, 8, 10, 14, 18, 20});
  CHECK(of_rank(1, rule) == Indices{1, 5, 9, 11, 15, 19, 21});
  CHECK(of_rank(2, rule) == Indices{2, 6, 12, 16, 0});  // the last one does not count
  CHECK(of_rank(3, rule) == Indices{3, 7, 13, 17, 1});
  const BatchShares first(22, {0, 4}, rule), last(22, {3, 4}, rule);
  CHECK(first.counted(0) == 3);
  CHECK(last.counted(0) == 2);
  CHECK(first.counted(2) == 1);
  CHECK(last.counted(2) == 0);
  CHECK(last.loaded(2) == 1);
  CHECK(last.counted_by_all(0) == 10);
  CHECK(last.counted_by_all(2) == 2);
}

TEST_CASE("batch shares: a rank loads the parts of several ranks, one after another") {
  const BatchRule rule = {.batch_size = 12};
  const BatchRule in_parts = {.batch_size = 12, .parts = 4};
  const auto indices = [](int64_t rank, int64_t world, const BatchRule& some) {
    return DistributedSampler(22, {rank, world}, {.shuffle = false, .batches = some}).indices();
  };
  std::vector<std::vector<int64_t>> parts;
  for (int64_t rank = 0; rank < 4; ++rank) parts.push_back(indices(rank, 4, rule));
  for (const int64_t world : {1, 2, 4})
    for (int64_t rank = 0; rank < world; ++rank) {
      std::vector<int64_t> expected;
      for (const size_t batch : {0, 1})
        for (auto part = rank * 4 / world; part < (rank + 1) * 4 / world; ++part) {
          const auto& all = parts[static_cast<size_t>(part)];  // batches of 3
          const auto begin = all.begin() + static_cast<std::ptrdiff_t>(3 * batch);
          expected.insert(expected.end(), begin, std::min(begin + 3, all.end()));
        }
      CHECK(indices(rank, world, in_parts) == expected);
      const BatchShares shares(22, {rank, world}, in_parts);
      CHECK(shares.num_samples() == std::ssize(expected));
      CHECK(shares.counted_by_all(1) == 12);
    }
}

TEST_CASE("batch shares: parts of an order that is shuffled by shards") {
  const auto indices = [](int64_t rank, int64_t world, int64_t parts) {
    DistributedSampler sampler(22, {rank, world},
                               {.batches = {.batch_size = 4, .parts = parts},
                                .groups = {.ends = {5, 12, 16, 22}, .buffer = 3}});
    sampler.set_epoch(1, /*lanes=*/4);
    return sampler.indices();
  };
  std::vector<int64_t> expected;  // one sample per batch and part
  for (size_t batch = 0; batch < 6; ++batch)
    for (int64_t rank = 0; rank < 4; ++rank) expected.push_back(indices(rank, 4, 0)[batch]);
  CHECK(indices(0, 1, 4) == expected);
}

TEST_CASE("batch plan: errors name valid values") {
  const auto plan = [](const char* yaml, int64_t samples, int64_t world) {
    return error_of(
        [&] { plan_batches(config_of(yaml), samples, {.world = world, .local = world}); });
  };
  CHECK(plan("{batch_size: 100}", 1000, 3) ==
        "config: data.batch_size: 100 is not divisible by 3 ranks; nearest valid sizes: 99 or 102 "
        "(or set data.batch_remainder: uneven or pad, or data.per_rank_batch_size instead)");
  CHECK(plan("{batch_size: 2}", 1000, 3) ==
        "config: data.batch_size: 2 is not divisible by 3 ranks; nearest valid sizes: 3 (or set "
        "data.batch_remainder: uneven or pad, or data.per_rank_batch_size instead)");
  CHECK(plan("{batch_size: 2, batch_remainder: uneven}", 1000, 3) ==
        "config: data.batch_size: 2 is less than the number of ranks, 3, each of which needs a "
        "sample; "
        "start fewer ranks, or set at least 3");
  CHECK(plan("{per_rank_batch_size: 2, batch_remainder: pad}", 1000, 3) ==
        "config: data.batch_remainder: pad has no effect with data.per_rank_batch_size: all ranks "
        "have the same number of samples");
  CHECK(plan("{batch_size: 8, per_rank_batch_size: 4}", 1000, 2) ==
        "config: data.batch_size (8, over all ranks) and data.per_rank_batch_size (4) are mutually "
        "exclusive: set one");
  CHECK(plan("{batch_size: 4}", 3, 4) ==
        "config: more ranks than samples: the training set has 3 samples for 4 ranks; start at "
        "most 3 ranks");
  CHECK(plan("{batch_size: 64, drop_last: true}", 63, 1) ==
        "config: data.drop_last leaves no batch: 63 samples are fewer than one global batch of 64; "
        "set a smaller "
        "batch size, or drop_last: false");
  CHECK(plan("{batch_size: 64}", 0, 1) == "config: data.train: the dataset is empty");
}

TEST_CASE("batch plan: sizes are checked when they are parsed") {
  CHECK(error_of([] {
          config_of("batch_size: 0");
        }).starts_with("config: run.yaml:1: data.batch_size: expected at least 1"));
  CHECK(error_of([] {
          config_of("workers: -1");
        }).starts_with("config: run.yaml:1: data.workers: expected at least 0"));
  CHECK(error_of([] { config_of("batchsize: 1"); })
            .starts_with(
                "config: run.yaml:1: data.batchsize: unknown key; did you mean 'batch_size'?"));
}

}  // namespace
}  // namespace lockstep::data
