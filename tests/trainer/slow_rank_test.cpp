// A rank that makes the others wait is named, once, after a time.
#include "trainer/metrics/slow_rank.h"

#include <catch2/catch.hpp>

namespace lockstep::trainer {
namespace {

using std::chrono::seconds;

StepTimes step_of(double forward, double data_wait = 0.001) {
  return {.data_wait = data_wait, .forward = forward, .whole = 0.5};
}

const SlowRankConfig kTwice{.factor = 2, .after = {seconds(10)}};

TEST_CASE("slow rank: is named once, after the time, with the part that is slow") {
  SlowRankWatch watch(kTwice);
  const std::vector<StepTimes> times = {step_of(0.1), step_of(0.12, 0.33), step_of(0.11)};
  const SlowRankWatch::Clock::time_point begin;
  CHECK(!watch.update(times, begin));
  CHECK(!watch.update(times, begin + seconds(9)));
  const auto text = watch.update(times, begin + seconds(12));
  REQUIRE(text);
  CHECK(*text ==
        "rank 1 makes the others wait: for 12 s its part of a step has taken 0.45 s, 4.2 times the "
        "median of the others (0.106 s); most of the difference is in waiting for data "
        "(distributed.slow_rank)");
  CHECK(!watch.update(times, begin + seconds(13)));
}

TEST_CASE("slow rank: the time starts again after a fast interval, and for another rank") {
  SlowRankWatch watch(kTwice);
  const std::vector<StepTimes> first = {step_of(0.4), step_of(0.1)},
                               second = {step_of(0.1), step_of(0.4)},
                               even = {step_of(0.1), step_of(0.1)};
  const SlowRankWatch::Clock::time_point begin;
  CHECK(!watch.update(first, begin));
  CHECK(!watch.update(second, begin + seconds(11)));
  CHECK(!watch.update(even, begin + seconds(20)));
  CHECK(!watch.update(second, begin + seconds(22)));
  CHECK(watch.update(second, begin + seconds(32)));
  CHECK(!watch.update(even, begin + seconds(33)));
  CHECK(!watch.update(second, begin + seconds(34)));
  CHECK(watch.update(second, begin + seconds(44)));
}

TEST_CASE("slow rank: too little to matter, or one rank") {
  SlowRankWatch watch({.factor = 2, .after = {seconds(0)}});
  CHECK(!watch.update({step_of(0.001, 0), step_of(0.01, 0)}, {}));  // of a step of 0.5 s
  CHECK(!watch.update({step_of(0.4)}, {}));
  CHECK(!watch.update({step_of(0.1), step_of(0.19)}, {}));
  CHECK(watch.update({step_of(0.1), step_of(0.4)}, {}));
}

}  // namespace
}  // namespace lockstep::trainer
