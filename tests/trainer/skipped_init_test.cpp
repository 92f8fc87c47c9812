#include "trainer/prepared/skipped_init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/linear.h>

#include <catch2/catch.hpp>
#include <optional>

using namespace lockstep::trainer;

TEST_CASE("skipped init: random fills of this thread are skipped, constants are not") {
  auto weight = at::full({4}, 7.0);
  {
    const SkippedInit skipped;
    weight.uniform_();
    weight.normal_();
    CHECK(at::equal(weight, at::full({4}, 7.0)));
    CHECK(at::equal(at::ones({3}).mul(2), at::full({3}, 2.0)));
  }
  weight.uniform_();
  CHECK(weight.max().item<float>() < 1);
}

TEST_CASE("skipped init: a module has its parameters, and the generator does not advance") {
  at::manual_seed(5);
  const auto expected = at::rand({4});
  at::manual_seed(5);
  std::optional<torch::nn::Linear> layer;
  {
    const SkippedInit skipped;
    layer.emplace(3, 2);
  }
  CHECK((*layer)->weight.sizes() == at::IntArrayRef({2, 3}));
  CHECK((*layer)->weight.requires_grad());
  CHECK(at::equal(at::rand({4}), expected));
}
