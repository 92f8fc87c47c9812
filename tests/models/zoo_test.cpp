// The built-in models, built through the registry as a run file does.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "core/part.h"
#include "models/model.h"
#include "tests/data/error_of.h"

namespace lockstep {
namespace {

std::shared_ptr<Model> build(const std::string& yaml) {
  Part<Model> part(model_registry());
  part.read(parse_config(yaml, "run.yaml"), "model");
  at::manual_seed(0);
  return part.build();
}

Batch images(at::IntArrayRef shape) {
  at::manual_seed(1);
  const auto label = at::arange(shape[0]).remainder(10);
  return {.fields = {{"image", at::rand(shape)}, {"label", label}},
          .indices = at::arange(shape[0])};
}

std::string forward_error(const std::string& yaml, const Batch& batch) {
  const auto model = build(yaml);
  return error_of([&] { model->forward(batch); });
}

TEST_CASE("zoo: parameters carry the names of the Python modules") {
  CHECK(build("{name: mlp, hidden: [4, 3]}")->named_parameters().keys() ==
        std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.2.weight",
                                 "layers.2.bias", "layers.4.weight", "layers.4.bias"});
  CHECK(build("{name: cnn}")->named_parameters().keys() ==
        std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                 "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
}

TEST_CASE("zoo: every model gives logits, a loss and gradients for all its parameters") {
  for (const auto* yaml :
       {"{name: mlp, hidden: [8]}", "{name: cnn, channels: [4, 6], hidden: 8}"}) {
    INFO(yaml);
    const auto model = build(yaml);
    const auto outputs = model->forward(images({5, 1, 28, 28}));
    CHECK(outputs.predictions.sizes() == at::IntArrayRef{5, 10});
    CHECK(outputs.loss.dim() == 0);
    CHECK(outputs.count == 5);
    outputs.loss.backward();
    for (const auto& parameter : model->parameters())
      CHECK(parameter.grad().abs().sum().item<double>() > 0);
  }
}

TEST_CASE("zoo: a step against the gradient lowers the loss") {
  for (const auto* yaml :
       {"{name: mlp, hidden: [16]}", "{name: cnn, channels: [4, 6], hidden: 16}"}) {
    INFO(yaml);
    const auto model = build(yaml);
    const auto batch = images({32, 1, 28, 28});
    const auto first = model->forward(batch).loss;
    first.backward();
    for (auto& parameter : model->parameters()) parameter.data().sub_(parameter.grad(), 0.05);
    CHECK(model->forward(batch).loss.item<double>() < first.item<double>());
  }
}

TEST_CASE("zoo: the mlp flattens images, the cnn takes the size and channels it was told") {
  CHECK(build("{name: mlp, inputs: 12, classes: 3, hidden: []}")
            ->forward(Batch{.fields = {{"image", at::zeros({2, 3, 2, 2})}}, .indices = {}})
            .predictions.sizes() == at::IntArrayRef{2, 3});
  const auto cnn =
      build("{name: cnn, channels: [2], hidden: 3, image_size: 8, in_channels: 3, classes: 4}");
  CHECK(cnn->forward(Batch{.fields = {{"image", at::zeros({2, 3, 8, 8})}}, .indices = {}})
            .predictions.sizes() == at::IntArrayRef{2, 4});
}

TEST_CASE("zoo: batches that do not fit are errors with the shapes") {
  CHECK(forward_error("{name: mlp}", images({4, 1, 8, 8})) ==
        "config: model mlp has inputs: 784, but 'image' is [4, 1, 8, 8], 64 per sample; set "
        "model.inputs");
  CHECK(forward_error("{name: cnn}", images({4, 3, 28, 28})) ==
        "config: model cnn takes images [B, 1, 28, 28], but 'image' is [4, 3, 28, 28]; set "
        "model.in_channels and "
        "model.image_size");
  CHECK(forward_error("{name: cnn}", images({4, 784})) ==
        "config: model cnn takes images [B, 1, 28, 28], but 'image' is [4, 784]; set "
        "model.in_channels and "
        "model.image_size");
  CHECK(forward_error("{name: mlp}", Batch{})
            .starts_with("config: the model needs the field 'image'"));
}

TEST_CASE("zoo: a cnn that its images are too small for is an error") {
  CHECK(error_of([] { build("{name: cnn, image_size: 10, channels: [4, 4, 4]}"); }) ==
        "config: model cnn: images of 10 pixels are too small for 3 convolutions; give fewer "
        "channels (convolution 3 has "
        "nothing left to work on)");
  CHECK(error_of([] { build("{name: cnn, channels: []}"); }) ==
        "config: model cnn: channels is empty; give at least one, e.g. [32, 64]");
  CHECK(error_of([] {
          build("{name: mlp, hidden: [0]}");
        }).starts_with("config: run.yaml:1: model.hidden[0]: expected at least 1"));
}

}  // namespace
}  // namespace lockstep
