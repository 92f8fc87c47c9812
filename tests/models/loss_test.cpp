#include "models/loss.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "models/language.h"
#include "tests/data/error_of.h"

namespace lockstep::models {
namespace {

at::Tensor logits_23() { return at::tensor(std::vector<float>{0.5, -1, 2, 1, 0, -2}).view({2, 3}); }
at::Tensor label_2() { return at::tensor(std::vector<int64_t>{2, 1}); }

LossConfig loss_config(const std::string& text) {
  return ConfigValue<LossConfig>::read(*parse_config("loss: " + text, "test").find("loss"), "loss");
}

double loss_with(const std::string& text, const at::Tensor& outputs, const at::Tensor& label) {
  const LabelLoss loss(loss_config(text), outputs.size(1), "test");
  return loss(outputs, {.fields = {{"label", label}}, .indices = {}}).loss.item<double>();
}

// Of each sample.
at::Tensor log_probabilities() {
  return at::log_softmax(logits_23(), 1).gather(1, label_2().view({2, 1}));
}

TEST_CASE("loss: a name and a map select the same loss, and return as they were written") {
  CHECK(loss_config("focal").values == loss_config("{name: focal}").values);
  for (const auto* text :
       {"mse", "{name: huber, delta: 2}", "{name: focal, class_weights: [1, 2]}"}) {
    const auto config = loss_config(text);
    const auto dumped = ConfigValue<LossConfig>::dump(config);
    CHECK(loss_config(dumped.dump()).values == config.values);
  }
  CHECK(ConfigValue<LossConfig>::dump(LossName::MeanSquaredError) == "mse");
}

TEST_CASE("loss: cross-entropy with weights and smoothing is a mean over samples") {
  const auto log_p = at::log_softmax(logits_23(), 1);
  const auto mean = [](const at::Tensor& x) { return x.mean().item<double>(); };
  CHECK(loss_with("cross_entropy", logits_23(), label_2()) == Approx(-mean(log_probabilities())));
  const auto smooth = -0.9 * log_probabilities().view({2}) - 0.1 * log_p.mean(1);
  CHECK(loss_with("{name: cross_entropy, label_smoothing: 0.1}", logits_23(), label_2()) ==
        Approx(mean(smooth)));
  const auto weights = at::tensor(std::vector<float>{3, 5}).view({2, 1});  // of the labels 2 and 1
  CHECK(loss_with("{name: cross_entropy, class_weights: [7, 5, 3]}", logits_23(), label_2()) ==
        Approx(-mean(weights * log_probabilities())));
}

TEST_CASE("loss: gradients of focal loss are finite for samples that are certain") {
  auto logits = at::tensor(std::vector<float>{40, 0, 0}).view({1, 3}).detach().requires_grad_(true);
  const LabelLoss loss(loss_config("{name: focal, gamma: 0.5}"), 3, "test");
  loss(logits, {.fields = {{"label", at::zeros({1}, at::kLong)}}, .indices = {}}).loss.backward();
  CHECK(at::isfinite(logits.grad()).all().item<bool>());
}

TEST_CASE("loss: focal loss counts samples that are classified well less") {
  const auto log_p = log_probabilities();
  const auto expected = -((1 - log_p.exp()).square() * log_p).mean().item<double>();
  CHECK(loss_with("focal", logits_23(), label_2()) == Approx(expected));
  CHECK(loss_with("{name: focal, gamma: 0}", logits_23(), label_2()) ==
        Approx(loss_with("cross_entropy", logits_23(), label_2())));
}

TEST_CASE("loss: binary is a mean over samples and classes; a sample is right as a whole") {
  const auto label = at::tensor(std::vector<float>{1, 0, 1, 1, 1, 0}).view({2, 3});
  const auto p = logits_23().sigmoid();
  const auto losses = -(label * p.log() + (1 - label) * (1 - p).log());
  CHECK(loss_with("binary", logits_23(), label) == Approx(losses.mean().item<double>()));
  const auto weighted = losses * at::tensor(std::vector<float>{1, 2, 3});
  CHECK(loss_with("{name: binary, class_weights: [1, 2, 3]}", logits_23(), label) ==
        Approx(weighted.mean().item<double>()));
  const LabelLoss loss(LossName::Binary, 3, "test");
  const auto outputs = loss(logits_23(), {.fields = {{"label", label}}, .indices = {}});
  CHECK(outputs.sums.at("accuracy").item<int64_t>() == 1);  // 0 of the second is not above 0
  CHECK_THAT(error_of([&] { loss_with("binary", logits_23(), label * 2); }),
             Catch::Contains("labels must be 0 or 1"));
}

TEST_CASE("loss: regression") {
  const auto label = at::zeros({2, 3});
  CHECK(loss_with("mse", logits_23(), label) == Approx((0.25 + 1 + 4 + 1 + 4) / 6));
  CHECK(loss_with("l1", logits_23(), label) == Approx((0.5 + 1 + 2 + 1 + 2) / 6));
  CHECK(loss_with("huber", logits_23(), label) == Approx((0.125 + 0.5 + 1.5 + 0.5 + 1.5) / 6));
  CHECK(loss_with("{name: huber, delta: 0.5}", logits_23(), label) ==
        Approx((0.125 + 0.375 + 0.875 + 0.375 + 0.875) / 6));
}

TEST_CASE("loss: settings that do not fit are Config errors") {
  const auto error = [](const std::string& text) {
    return error_of([&] { loss_with(text, logits_23(), label_2()); });
  };
  CHECK_THAT(error("hinge"), Catch::Contains("cross_entropy"));
  CHECK_THAT(error("[mse]"), Catch::Contains("a name such as cross_entropy, or a map"));
  CHECK_THAT(error("{gamma: 1}"), Catch::Contains("name"));
  CHECK_THAT(error("{name: mse, gamma: 1}"), Catch::Contains("name: focal"));
  CHECK_THAT(error("{name: focal, class_weights: [1]}"),
             Catch::Contains("loss.class_weights has 1 values for 3 classes"));
  CHECK_THAT(error_of([] { LabelLoss(LossName::Focal, 1, "x"); }),
             Catch::Contains("needs at least 2 classes"));
}

TEST_CASE("loss: the z loss is the mean squared log of the normalizer over the targets") {
  const auto logits = logits_23().view({1, 2, 3});
  const Batch batch{.fields = {{"targets", at::tensor(std::vector<int64_t>{1, -100}).view({1, 2})}},
                    .indices = {}};
  const auto plain = language_outputs(logits, batch, {}).loss.item<double>();
  const auto with = language_outputs(logits, batch, {.z_loss = 0.1}).loss.item<double>();
  const auto log_sum = at::logsumexp(logits_23(), 1)[0].item<double>();
  CHECK(with - plain == Approx(0.1 * log_sum * log_sum));
}

}  // namespace
}  // namespace lockstep::models
