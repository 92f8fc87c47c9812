#include "trainer/state/loss_scaler.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <limits>

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

// A parameter with the given gradient.
NamedTensors with_gradient(float gradient) {
  auto parameter = at::zeros({3}).requires_grad_();
  parameter.mutable_grad() = at::full({3}, gradient);
  return {{"w", parameter}, {"unused", at::zeros({2}).requires_grad_()}};
}

}  // namespace

TEST_CASE("loss scaler: unscaling restores the gradients of the loss") {
  LossScaler scaler;
  CHECK(scaler.scaled(at::scalar_tensor(0.5)).item<float>() == 32768);
  const auto parameters = with_gradient(32768);
  CHECK(scaler.unscale(StepGradients(parameters)));
  CHECK(at::equal(parameters[0].second.grad(), at::full({3}, 0.5)));
  CHECK(scaler.state() == LossScaleState{65536, 1});
}

TEST_CASE("loss scaler: an overflow halves the scale, 2000 good steps double it") {
  LossScaler scaler;
  CHECK(scaler.unscale(StepGradients(with_gradient(1))));
  CHECK_FALSE(scaler.unscale(StepGradients(with_gradient(std::numeric_limits<float>::infinity()))));
  CHECK_FALSE(
      scaler.unscale(StepGradients(with_gradient(std::numeric_limits<float>::quiet_NaN()))));
  CHECK(scaler.state() == LossScaleState{16384, 0});
  CHECK(scaler.take_skipped() == 2);
  CHECK(scaler.take_skipped() == 0);
  const auto good = with_gradient(0);
  for (int i = 0; i < 1999; ++i) scaler.unscale(StepGradients(good));
  CHECK(scaler.state() == LossScaleState{16384, 1999});
  scaler.unscale(StepGradients(good));
  CHECK(scaler.state() == LossScaleState{32768, 0});
}

TEST_CASE("loss scaler: the scale stays within float32") {
  LossScaler scaler;
  scaler.restore({0x1p127, 1999});
  scaler.unscale(StepGradients(with_gradient(0)));
  CHECK(scaler.state() == LossScaleState{0x1p127, 0});
}

TEST_CASE("loss scaler: no gradients") {
  LossScaler scaler;
  CHECK(scaler.unscale(StepGradients({{"unused", at::zeros({2}).requires_grad_()}})));
  CHECK(scaler.state() == LossScaleState{});
}
