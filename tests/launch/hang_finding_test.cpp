#include "launch/hangs/hang_finding.h"

#include <catch2/catch.hpp>

using namespace lockstep;
using namespace lockstep::launch;
using Catch::Matchers::Contains;

namespace {

// A rank in a training step, inside its n-th operation.
RankView inside(int rank, uint64_t operations, const std::string& name, double idle_s) {
  RankView view;
  view.host = "node" + std::to_string(rank / 2);
  view.process_state = 'S';
  view.progress.rank = rank;
  view.progress.pid = 1000 + rank;
  view.progress.phase = Phase::Backward;
  view.progress.step = 119;
  view.progress.total_steps = 1000;
  view.progress.operations = operations;
  view.progress.in_operation = true;
  view.progress.operation = name;
  view.progress.idle_s = idle_s;
  view.progress.warn_after_s = 3;
  view.progress.longest_step_s = 0.1;
  view.progress.timeout_s = 600;
  return view;
}

RankView outside(int rank, uint64_t operations, Phase phase, double age_s) {
  auto view = inside(rank, operations, "step vote", age_s);
  view.progress.in_operation = false;
  view.progress.phase = phase;
  view.progress.phase_age_s = age_s;
  return view;
}

}  // namespace

TEST_CASE("hang: the missing rank is named, with its phase") {
  const std::vector views = {inside(0, 12, "gradient all_reduce", 3.2),
                             outside(1, 11, Phase::DataWait, 3.3),
                             inside(2, 12, "gradient all_reduce", 3.1)};
  const auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK(finding->culprits == std::vector{1});
  const auto text = describe_hang(*finding, views);
  CHECK_THAT(text, Contains("rank 1 (node0, process 1001) has kept the others waiting for 3.2 s"));
  CHECK_THAT(text, Contains("step 120 of 1000, waiting for data for 3.3 s"));
  CHECK_THAT(text, Contains("rank 0: step 120 of 1000, backward: in gradient all_reduce"));
}

TEST_CASE("hang: after the last step, the step is that one") {
  std::vector views = {inside(0, 12, "barrier 'end of training'", 33),  // saving may take 30 s
                       outside(1, 11, Phase::Saving, 34)};
  for (auto& view : views) view.progress.step = view.progress.total_steps;
  const auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK_THAT(describe_hang(*finding, views), Contains("step 1000 of 1000, saving a checkpoint"));
}

TEST_CASE("hang: in a backward pass the rank with fewer buckets is the culprit") {
  auto fast = inside(0, 12, "gradient all_reduce", 4), slow = fast;
  fast.progress.buckets_started = 3;
  fast.progress.buckets_finished = 1;
  fast.bucket = "layer2.weight";
  slow.progress.rank = 1;
  slow.progress.buckets_started = 1;
  slow.progress.buckets_finished = 1;
  const std::vector views = {fast, slow};
  const auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK(finding->culprits == std::vector{1});
  CHECK_THAT(describe_hang(*finding, views), Contains("bucket 1 (layer2.weight)"));
}

TEST_CASE("hang: a rank that has left an operation is ahead of a rank inside it") {
  const std::vector views = {inside(0, 12, "barrier 'a'", 5), outside(1, 12, Phase::Optimizer, 5)};
  const auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK(finding->culprits == std::vector{0});
}

TEST_CASE("hang: its key does not depend on which rank waits longer") {
  auto behind = inside(0, 11, "step vote", 5), ahead = inside(1, 12, "gradient all_reduce", 5.1);
  const auto key = find_hang({behind, ahead})->key;
  behind.progress.idle_s = 5.2;
  CHECK(find_hang({behind, ahead})->key == key);
  ahead.progress.operations = 13;
  CHECK(find_hang({behind, ahead})->key != key);
}

TEST_CASE("hang: usual waits are not reported") {
  auto waits = inside(0, 12, "gradient all_reduce", 2.9);
  CHECK_FALSE(find_hang({waits, outside(1, 11, Phase::Forward, 2.9)}));
  waits.progress.idle_s = 8;
  CHECK(find_hang({waits, outside(1, 11, Phase::Forward, 8)}));
  // Another rank writes a checkpoint: that may take ten times as long.
  CHECK_FALSE(find_hang({waits, outside(1, 11, Phase::Saving, 8)}));
  // Unless it is stopped.
  auto stopped = outside(1, 11, Phase::Saving, 8);
  stopped.process_state = 'T';
  CHECK(find_hang({waits, stopped}));
  // Two ranks wait in different operations, one of them in a long phase.
  auto evaluates = inside(1, 12, "barrier 'evaluation'", 9);
  evaluates.progress.phase = Phase::Evaluating;
  CHECK(find_hang({waits, evaluates}));
  // Steps are long.
  waits.progress.longest_step_s = 4;
  CHECK_FALSE(find_hang({waits, outside(1, 11, Phase::Forward, 8)}));
  CHECK_FALSE(find_hang({waits}));
  CHECK_FALSE(find_hang({}));
  // In the first step, nothing says how long a step may take.
  waits.progress.longest_step_s = 0;
  auto first = outside(1, 11, Phase::Forward, 8);
  first.progress.longest_step_s = 0;
  CHECK_FALSE(find_hang({waits, first}));
  waits.progress.idle_s = 31;
  CHECK(find_hang({waits, first}));
}

TEST_CASE("hang: ranks in different operations, stopped processes and silent networks") {
  auto a = inside(0, 12, "all_reduce 'loss'", 5), b = inside(1, 12, "barrier 'checkpoint'", 5);
  std::vector views = {a, b};
  auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK(finding->culprits.empty());
  CHECK_THAT(describe_hang(*finding, views), Contains("they are in different operations") &&
                                                 Contains("in all_reduce 'loss'") &&
                                                 Contains("in barrier 'checkpoint'"));
  views[1] = a;
  views[1].progress.rank = 1;
  finding = find_hang(views);
  CHECK_THAT(describe_hang(*finding, views), Contains("no rank is behind: suspect the network"));
  views[1].process_state = 'T';
  finding = find_hang(views);
  CHECK(finding->culprits == std::vector{1});
  CHECK_THAT(describe_hang(*finding, views), Contains("rank 1") && Contains("is stopped"));
  CHECK_FALSE(finding->is_overdue());
  views[0].progress.idle_s = 569;
  CHECK_FALSE(find_hang(views)->is_overdue());
  views[0].progress.idle_s = 571;
  CHECK(find_hang(views)->is_overdue());
}

TEST_CASE("hang: ranks of a silent node are not blamed") {
  std::vector views = {inside(0, 12, "gradient all_reduce", 4.7),
                       outside(1, 11, Phase::Forward, 0.1), outside(2, 11, Phase::Forward, 0.1)};
  for (const size_t rank : {1, 2}) views[rank].silent_s = 5.2;
  views[1].host = "nodeb";
  views[2].host = "nodec";
  const auto finding = find_hang(views);
  REQUIRE(finding);
  CHECK(finding->culprits.empty());
  CHECK_THAT(describe_hang(*finding, views),
             Contains("no message from nodeb, nodec for 5.2 s, and the other ranks have waited "
                      "for 4.7 s: suspect the network") &&
                 Contains("rank 0: step 120 of 1000, backward") && !Contains("rank 1"));
  views[0].progress.idle_s = 2.9;
  CHECK_FALSE(find_hang(views));
  // Ranks that waited on a silent node may not be waiting anymore.
  views[0].silent_s = 9;
  views[0].progress.idle_s = 10;
  CHECK_FALSE(find_hang(views));
}
