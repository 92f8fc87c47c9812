// Choosing the next token. sampling_against_python.py compares the filters with transformers.
#include "models/sampling.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <set>

namespace lockstep::models {
namespace {

std::vector<int64_t> draw(const at::Tensor& logits, const Sampling& sampling, uint64_t seed,
                          int64_t number = 0, int count = 300) {
  auto generator = generator_of(seed, number);
  std::vector<int64_t> tokens;
  for (int i = 0; i < count; ++i) tokens.push_back(choose_token(logits, sampling, generator));
  return tokens;
}

TEST_CASE("sampling: without a temperature, the most likely token") {
  const auto logits = at::tensor({0.5f, 2.f, 2.f, -1.f});
  for (const auto token : draw(logits, {}, 1)) CHECK(token == 1);
}

TEST_CASE("sampling: tokens have their probabilities") {
  const auto logits = at::log(at::tensor({0.1f, 0.2f, 0.7f}));
  const auto tokens = draw(logits, {.temperature = 1}, 1, 0, 4000);
  const auto share = [&](int64_t token) {
    return static_cast<double>(std::ranges::count(tokens, token)) / 4000;
  };
  CHECK(share(0) == Approx(0.1).margin(0.03));
  CHECK(share(1) == Approx(0.2).margin(0.03));
  CHECK(share(2) == Approx(0.7).margin(0.03));
}

TEST_CASE("sampling: only tokens that pass the filters") {
  const auto logits = at::log(at::tensor({0.1f, 0.2f, 0.3f, 0.4f}));
  const auto chosen = [&](const Sampling& sampling) {
    const auto tokens = draw(logits, sampling, 3);
    return std::set<int64_t>(tokens.begin(), tokens.end());
  };
  CHECK(chosen({.temperature = 1}) == std::set<int64_t>{0, 1, 2, 3});
  CHECK(chosen({.temperature = 1, .top_k = 2}) == std::set<int64_t>{2, 3});
  CHECK(chosen({.temperature = 1, .top_k = {}, .top_p = 0.75}) == std::set<int64_t>{1, 2, 3});
  CHECK(chosen({.temperature = 1, .top_k = 3, .top_p = 0.1}) == std::set<int64_t>{3});
  CHECK(chosen({.temperature = 1, .top_k = {}, .top_p = {}, .min_p = 0.6}) ==
        std::set<int64_t>{2, 3});
}

TEST_CASE("sampling: a function of seed and prompt, not of other random numbers") {
  const auto logits = at::zeros({50});
  const Sampling sampling{.temperature = 1};
  const auto state = at::detail::getDefaultCPUGenerator().get_state();
  const auto first = draw(logits, sampling, 5);
  CHECK(at::equal(state, at::detail::getDefaultCPUGenerator().get_state()));
  CHECK(draw(logits, sampling, 5) == first);
  CHECK(draw(logits, sampling, 6) != first);
  CHECK(draw(logits, sampling, 5, 1) != first);
}

TEST_CASE("sampling: logits that are not finite") {
  const auto logits = at::full({4}, NAN);
  for (const auto token : draw(logits, {.temperature = 1, .top_k = 2, .top_p = 0.5}, 1, 0, 10))
    CHECK((token >= 0 && token < 4));
}

}  // namespace
}  // namespace lockstep::models
