#include "models/classification.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "tests/data/error_of.h"

namespace lockstep::models {
namespace {

Batch labeled(const at::Tensor& label) { return {.fields = {{"label", label}}, .indices = {}}; }

TEST_CASE("classification: loss is the mean cross-entropy, accuracy counts the largest logits") {
  const auto logits =
      at::tensor(std::vector<float>{0, 0, 5, 0, 0, 9}).reshape({3, 2}).requires_grad_();
  const auto label = at::tensor(std::vector<int64_t>{0, 1, 1});
  const auto outputs = classification_outputs(logits, labeled(label));
  const auto expected =
      (std::log(2.0) + std::log1p(std::exp(5.0)) + std::log1p(std::exp(-9.0))) / 3;
  CHECK(outputs.loss.item<double>() == Approx(expected));
  CHECK(outputs.count == 3);
  CHECK(outputs.predictions.is_same(logits));
  CHECK(outputs.sums.at("accuracy").item<int64_t>() == 2);
  CHECK(outputs.loss.requires_grad());
  CHECK_FALSE(outputs.sums.at("accuracy").requires_grad());
}

TEST_CASE("classification: without labels there are only predictions") {
  const auto outputs = classification_outputs(at::zeros({3, 2}), Batch{});
  CHECK(outputs.predictions.defined());
  CHECK_FALSE(outputs.loss.defined());
  CHECK(outputs.sums.empty());
  CHECK(outputs.count == 3);
}

TEST_CASE("classification: invalid labels are Config errors") {
  const auto error = [](const at::Tensor& label) {
    return error_of([&] { classification_outputs(at::zeros({2, 10}), labeled(label)); });
  };
  CHECK(error(at::tensor(std::vector<int64_t>{3, 10})) ==
        "config: the dataset has label 10, but the model has 10 classes: labels 0 to 9 are valid; "
        "set model.classes");
  CHECK(error(at::tensor(std::vector<int64_t>{-1, 3})) ==
        "config: the dataset has label -1, but the model has 10 classes: labels 0 to 9 are valid; "
        "set model.classes");
  CHECK(
      error(at::zeros({3}, at::kLong)) ==
      "config: the model needs one int64 label per sample: 'label' is Long [3], expected Long [2]");
  CHECK(error(at::zeros({2}, at::kFloat)) ==
        "config: the model needs one int64 label per sample: 'label' is Float [2], expected Long "
        "[2]; save integers, or for a table set label_kind: class");
  CHECK(error(at::zeros({2, 1}, at::kLong)) ==
        "config: the model needs one int64 label per sample: 'label' is Long [2, 1], expected Long "
        "[2]");
}

TEST_CASE("classification: labels of other integer types are equivalent to int64") {
  const auto logits = at::tensor(std::vector<float>{1, 2, 3, 4, 3, 2}).view({2, 3});
  const auto loss_of = [&](at::ScalarType type) {
    const auto label = at::tensor(std::vector<int64_t>{2, 1}).to(type);
    return classification_outputs(logits, labeled(label)).loss.item<float>();
  };
  for (const auto type : {at::kInt, at::kShort, at::kByte, at::kChar})
    CHECK(loss_of(type) == loss_of(at::kLong));
}

TEST_CASE("classification: floating-point inputs become float32, integers are rejected") {
  const Batch batch{.fields = {{"double", at::full({2, 3}, 0.1, at::kDouble)},
                               {"half", at::ones({2, 3}, at::kHalf)},
                               {"byte", at::ones({2, 3}, at::kByte)}},
                    .indices = {}};
  CHECK(float_input(batch, "double").equal(at::full({2, 3}, 0.1, at::kFloat)));
  CHECK(float_input(batch, "half").scalar_type() == at::kFloat);
  CHECK(error_of([&] { float_input(batch, "byte"); }) ==
        "config: the model takes float32 numbers, but 'byte' is Byte [2, 3]; convert it in "
        "data.train and data.eval: fields: {byte: {dtype: float32, divide_by: 255}}, and name the "
        "other fields there too, e.g. label: {}");
}

}  // namespace
}  // namespace lockstep::models
