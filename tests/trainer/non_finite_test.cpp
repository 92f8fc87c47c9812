#include "trainer/config/non_finite.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

#include "tests/data/error_of.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInf = std::numeric_limits<double>::infinity();

}  // namespace

TEST_CASE("non-finite: stop reports the first value with its step and rank", "[trainer]") {
  const auto connected = World::connect({.device = DeviceChoice::Cpu});
  auto& alone = *connected;
  NonFiniteWatch watch(NonFinitePolicy::Stop);
  CHECK(watch.observe("loss", at::scalar_tensor(1.5), 1));
  CHECK(watch.observe("gradient norm", {}, 1));  // not measured
  CHECK_FALSE(watch.has_observed());
  CHECK_FALSE(watch.observe("loss", at::scalar_tensor(-kNan), 2));
  CHECK_FALSE(watch.observe("loss", at::scalar_tensor(kInf), 3));
  REQUIRE(watch.has_observed());
  CHECK(error_of([&] {
          watch.stop(alone);
        }).starts_with("config: step 2, rank 0: the loss is nan (train.non_finite: stop); "));
}

TEST_CASE("non-finite: stop names the rank of the first value, not the lowest rank", "[trainer]") {
  const auto texts_of = [](const char* what_0, int64_t step_0, const char* what_1, int64_t step_1) {
    return distributed::run_ranks(2, [&](World& world) {
      NonFiniteWatch watch(NonFinitePolicy::Stop);
      const bool is_first = world.rank() == 0;
      watch.note(is_first ? what_0 : what_1, kNan, is_first ? step_0 : step_1);
      return error_of([&] { watch.stop(world); });
    });
  };
  for (const auto& text : texts_of("loss", 4, "loss", 3))
    CHECK(text.starts_with("config: step 3, rank 1: the loss is nan "));
  for (const auto& text : texts_of("loss", 3, "loss", 3))
    CHECK(text.starts_with("config: step 3, rank 0: the loss is nan "));
  for (const auto& text : texts_of("gradient norm", 3, "loss", 3))
    CHECK(text.starts_with("config: step 3, rank 1: the loss is nan "));
}

TEST_CASE("non-finite: weights are checked before a checkpoint", "[trainer]") {
  const auto connected = World::connect({.device = DeviceChoice::Cpu});
  auto& alone = *connected;
  const auto big = at::full({3}, 3e38);  // its sum is not finite
  const NamedTensors finite = {{"a", big}, {"b", at::zeros({0})}, {"c", at::ones({2}, at::kLong)}};
  NonFiniteWatch watch(NonFinitePolicy::Stop);
  watch.observe_weights({}, 4);
  watch.observe_weights(finite, 4);
  CHECK_FALSE(watch.has_observed());
  const auto half = at::ones({2, 2}, at::kBFloat16);
  half[1][0] = -kInf;
  watch.observe_weights({finite[0], {"half", half}, {"d", at::full({1}, kNan)}}, 4);
  CHECK(
      error_of([&] {
        watch.stop(alone);
      }).starts_with("config: step 4, rank 0: the weight 'half' is inf (train.non_finite: stop)"));
  NonFiniteWatch ignoring(NonFinitePolicy::Ignore);
  ignoring.observe_weights({{"half", half}}, 4);
  CHECK_FALSE(ignoring.has_observed());
}

TEST_CASE("non-finite: ignore checks nothing", "[trainer]") {
  NonFiniteWatch watch(NonFinitePolicy::Ignore);
  CHECK(watch.observe("loss", at::scalar_tensor(kNan), 1));
  CHECK_FALSE(watch.has_observed());
}

TEST_CASE("non-finite: skip accepts finite gradients whose norm overflows", "[trainer]") {
  NonFiniteWatch watch(NonFinitePolicy::Skip);
  watch.observe_gradients({at::full({3}, 1e30)}, 1);
  CHECK_FALSE(watch.has_observed());
  auto gradient = at::ones({3});
  gradient[1] = kNan;
  watch.observe_gradients({gradient}, 2);
  CHECK(watch.has_observed());
  watch.count_skipped(2);
  CHECK_FALSE(watch.has_observed());
  CHECK(watch.take_skipped() == 1);
  CHECK(watch.take_skipped() == 0);
}

TEST_CASE("non-finite: skip ends a run in which every step is skipped", "[trainer]") {
  NonFiniteWatch watch(NonFinitePolicy::Skip);
  for (int64_t i = 1; i < NonFiniteWatch::kMaxSkippedInARow; ++i) watch.count_skipped(i);
  watch.count_taken();
  for (int64_t i = 1; i < NonFiniteWatch::kMaxSkippedInARow; ++i) watch.count_skipped(i);
  CHECK(error_of([&] {
          watch.count_skipped(40);
        }).starts_with("config: step 40: 20 steps in a row were skipped"));
}
