// Recording and replay of passes, with a fake graph on the CPU: recording does not execute the
// pass, and a replay runs it again into the same tensors.
#include "trainer/loop/graphed_passes.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lockstep/error.h"
#include "lockstep/part.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

class PlayedGraph final : public distributed::LaunchGraph {
 public:
  explicit PlayedGraph(std::string refusal = {}) : refusal_(std::move(refusal)) {}

  std::vector<at::Tensor> record(const Body& body) override {
    if (!refusal_.empty()) throw std::runtime_error(refusal_);
    body_ = body;
    outputs_ = body();
    for (const auto& output : outputs_) output.fill_(std::numeric_limits<float>::quiet_NaN());
    return outputs_;
  }
  void replay() override {
    const auto again = body_();
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].copy_(again[i]);
  }

 private:
  std::string refusal_;
  Body body_;
  std::vector<at::Tensor> outputs_;
};

distributed::MakeLaunchGraph played(std::string refusal = {}) {
  return [refusal] { return std::make_unique<PlayedGraph>(refusal); };
}

std::shared_ptr<Model> make_mlp() {
  at::manual_seed(7);
  Part<Model> part(model_registry());
  part.read(parse_config("m: {name: mlp, inputs: 5, hidden: [4], classes: 3}", "test").find("m")[0],
            "model");
  return part.build();
}

Batch batch_of(int64_t count, int64_t number) {
  Batch batch;
  batch.indices = at::arange(count, at::kLong);
  batch.fields = {{"image", at::arange(count * 5, at::kFloat).view({count, 5}).sin() + number},
                  {"label", batch.indices % 3}};
  return batch;
}

const auto kWeight = at::full({}, 0.375f);

// Autograd's gradients of weight * loss, in the order of the parameters.
std::vector<at::Tensor> expected_gradients(Model& model, const Batch& batch) {
  for (auto& parameter : model.parameters()) parameter.mutable_grad().reset();
  (model.forward(batch).loss * kWeight).backward();
  std::vector<at::Tensor> gradients;
  for (auto& parameter : model.parameters())
    gradients.push_back(std::exchange(parameter.mutable_grad(), {}));
  return gradients;
}

void check_equal(const std::vector<at::Tensor>& a, const std::vector<at::Tensor>& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) CHECK(at::equal(a[i], b[i]));
}

void warm_up(GraphedPasses& passes, const Batch& batch) {
  for (int i = 0; i < GraphedPasses::kPassesBefore; ++i)
    CHECK_FALSE(passes.pass(batch, kWeight).has_value());
}

// Does not use its second parameter.
class Careless final : public Model {
 public:
  Careless() {
    used_ = register_parameter("used", at::ones({3}));
    register_parameter("unused", at::ones({3}));
  }
  Outputs forward(const Batch& batch) override {
    return {.loss = (used_ * batch.at("x")).mean(), .count = batch.size()};
  }

 private:
  at::Tensor used_;
};

// Has its own backward pass, in two segments.
class Segmented final : public Model {
 public:
  Segmented() {
    for (const auto* name : {"a", "b", "c"}) register_parameter(name, at::zeros({2}));
  }
  Outputs forward(const Batch& batch) override {
    return {.loss = batch.at("x").sum(), .count = batch.size()};
  }
  bool has_backward() const override { return true; }
  StepOutputs forward_backward(const Batch& batch, const at::Tensor& weight) override {
    const auto x = batch.at("x");
    const auto gradient = [x, weight](int64_t of) {
      return (x.sum() * weight * of).expand({2}).clone();
    };
    return {.outputs = forward(batch),
            .gradients = {gradient(3)},
            .remaining_segments = {[=] { return std::vector{gradient(2)}; },
                                   [=] { return std::vector{gradient(1)}; }}};
  }
};

}  // namespace

TEST_CASE("graphed passes: replays are bit-identical to autograd, for new batches and weights") {
  const auto model = make_mlp();
  GraphedPasses passes(*model, {.precision = Precision::Float32, .make = played()});
  warm_up(passes, batch_of(6, 0));
  for (int64_t number = 0; number < 4; ++number) {
    const auto batch = batch_of(6, number);
    const auto expected = expected_gradients(*model, batch);
    const auto loss = model->forward(batch).loss;
    const auto step = passes.pass(batch, kWeight);
    REQUIRE(step.has_value());
    check_equal(step->gradients, expected);
    CHECK(step->outputs.count == 6);
    CHECK(at::equal(step->outputs.loss, loss));
    CHECK_FALSE(step->outputs.loss.requires_grad());
    CHECK(step->outputs.sums.contains("accuracy"));
    const at::NoGradGuard no_grad;  // an optimizer works in place
    for (auto& parameter : model->parameters()) parameter.add_(0.01);
  }
  CHECK_FALSE(passes.take_reason().has_value());
}

TEST_CASE("graphed passes: one recording per shape, up to a limit") {
  const auto model = make_mlp();
  GraphedPasses passes(*model, {.precision = Precision::Float32, .make = played()});
  for (size_t count = 1; count <= GraphedPasses::kMaxShapes; ++count)
    warm_up(passes, batch_of(static_cast<int64_t>(count), 1));
  for (size_t count = 1; count <= GraphedPasses::kMaxShapes; ++count) {
    const auto batch = batch_of(static_cast<int64_t>(count), 2);
    const auto step = passes.pass(batch, kWeight);
    REQUIRE(step.has_value());
    check_equal(step->gradients, expected_gradients(*model, batch));
  }
  const auto one_more = batch_of(GraphedPasses::kMaxShapes + 1, 1);
  for (int i = 0; i <= GraphedPasses::kPassesBefore; ++i)
    CHECK_FALSE(passes.pass(one_more, kWeight).has_value());
}

TEST_CASE("graphed passes: gradients of accumulated batches outlive the next pass") {
  const auto model = make_mlp();
  GraphedPasses passes(
      *model, {.precision = Precision::Float32, .keeps_gradients = true, .make = played()});
  warm_up(passes, batch_of(6, 0));
  const auto first = passes.pass(batch_of(6, 1), kWeight);
  const auto second = passes.pass(batch_of(6, 2), kWeight);
  check_equal(first->gradients, expected_gradients(*model, batch_of(6, 1)));
  check_equal(second->gradients, expected_gradients(*model, batch_of(6, 2)));
}

TEST_CASE("graphed passes: if recording fails, the caller continues and gets the reason once") {
  const auto model = make_mlp();
  GraphedPasses passes(
      *model, {.precision = Precision::Float32,
               .make = played("operation not permitted when stream is capturing\nwith a stack")});
  warm_up(passes, batch_of(6, 0));
  CHECK_FALSE(passes.take_reason().has_value());
  CHECK_FALSE(passes.pass(batch_of(6, 0), kWeight).has_value());
  CHECK(passes.take_reason() == "operation not permitted when stream is capturing");
  CHECK_FALSE(passes.pass(batch_of(6, 0), kWeight).has_value());
  CHECK_FALSE(passes.take_reason().has_value());
}

TEST_CASE("graphed passes: a parameter without a gradient is named in the reason") {
  Careless model;
  GraphedPasses passes(model, {.precision = Precision::Float32, .make = played()});
  Batch batch{.fields = {{"x", at::ones({2, 3})}}, .indices = at::arange(2, at::kLong)};
  warm_up(passes, batch);
  CHECK_FALSE(passes.pass(batch, kWeight).has_value());
  CHECK(passes.take_reason() == "parameter 'unused' gets no gradient");
}

// Autograd returns one tensor, of one element, for both gradients.
class Alike final : public Model {
 public:
  Alike() {
    a_ = register_parameter("a", at::ones({3}));
    b_ = register_parameter("b", at::ones({3}));
  }
  Outputs forward(const Batch& batch) override {
    return {.loss = (a_ + b_).sum(), .count = batch.size()};
  }

 private:
  at::Tensor a_, b_;
};

TEST_CASE("graphed passes: each gradient has separate memory, in its parameter's layout") {
  Alike model;
  GraphedPasses passes(model, {.precision = Precision::Float32, .make = played()});
  Batch batch{.fields = {{"x", at::ones({2, 3})}}, .indices = at::arange(2, at::kLong)};
  warm_up(passes, batch);
  const auto step = passes.pass(batch, kWeight);
  REQUIRE(step.has_value());
  for (const auto& gradient : step->gradients) CHECK(gradient.is_contiguous());
  step->gradients[0].mul_(2);
  check_equal(step->gradients, {at::full({3}, 0.75f), at::full({3}, 0.375f)});
}

TEST_CASE("graphed passes: the model's own backward pass is recorded as a whole") {
  Segmented model;
  GraphedPasses passes(model, {.precision = Precision::Float32, .make = played()});
  Batch batch{.fields = {{"x", at::full({2}, 4.f)}}, .indices = at::arange(2, at::kLong)};
  warm_up(passes, batch);
  const auto step = passes.pass(batch, kWeight);
  REQUIRE(step.has_value());
  CHECK(step->remaining_segments.empty());
  REQUIRE(step->gradients.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    CHECK(step->gradients[i][0].item<float>() == 8 * 0.375f * static_cast<float>(i + 1));
}
