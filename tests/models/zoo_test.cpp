// The built-in models, built through the registry as from a run file.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lockstep/model.h"
#include "lockstep/part.h"
#include "tests/data/error_of.h"

namespace lockstep::models {
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

constexpr const char* kSmallResnet = "{name: resnet, in_channels: 1, classes: 10, stem: small}";
constexpr const char* kSmallVit =
    "{name: vit, image_size: 8, patch_size: 4, layers: 1, heads: 2, width: 8, mlp_width: 16, "
    "in_channels: 1, classes: 10}";

TEST_CASE("zoo: parameters have the names of the Python modules") {
  CHECK(build("{name: mlp, hidden: [4, 3]}")->named_parameters().keys() ==
        std::vector<std::string>{"layers.0.weight", "layers.0.bias", "layers.2.weight",
                                 "layers.2.bias", "layers.4.weight", "layers.4.bias"});
  CHECK(build("{name: cnn}")->named_parameters().keys() ==
        std::vector<std::string>{"conv1.weight", "conv1.bias", "conv2.weight", "conv2.bias",
                                 "fc1.weight", "fc1.bias", "fc2.weight", "fc2.bias"});
}

TEST_CASE("zoo: every model returns logits, a loss and gradients of all parameters") {
  for (const auto* yaml :
       {"{name: mlp, hidden: [8]}", "{name: cnn, channels: [4, 6], hidden: 8}", kSmallResnet}) {
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

TEST_CASE("zoo: the mlp flattens images, the cnn accepts the configured size and channels") {
  CHECK(build("{name: mlp, inputs: 12, classes: 3, hidden: []}")
            ->forward(Batch{.fields = {{"image", at::zeros({2, 3, 2, 2})}}, .indices = {}})
            .predictions.sizes() == at::IntArrayRef{2, 3});
  const auto cnn =
      build("{name: cnn, channels: [2], hidden: 3, image_size: 8, in_channels: 3, classes: 4}");
  CHECK(cnn->forward(Batch{.fields = {{"image", at::zeros({2, 3, 8, 8})}}, .indices = {}})
            .predictions.sizes() == at::IntArrayRef{2, 4});
}

TEST_CASE("zoo: errors for invalid batches state the shapes") {
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
  const Batch table{.fields = {{"features", at::zeros({4, 2})}}, .indices = at::arange(4)};
  CHECK(forward_error("{name: mlp}", table) ==
        "config: model mlp reads the field 'image', but the data have: features; set model.input "
        "to one of them, e.g. model.input=features");
  CHECK(forward_error("{name: mlp}", Batch{})
            .starts_with("config: the model needs the field 'image'"));
}

constexpr const char* kSmallGpt =
    "{name: gpt, vocab_size: 11, context: 6, layers: 1, heads: 2, width: 8}";

Batch text(const at::Tensor& tokens, const at::Tensor& targets) {
  return {.fields = {{"tokens", tokens}, {"targets", targets}},
          .indices = at::arange(tokens.size(0))};
}

at::Tensor some_tokens(at::IntArrayRef shape) {
  at::manual_seed(2);
  return at::randint(11, shape, at::kLong);
}

TEST_CASE("zoo: the gpt has the names and shapes of GPT-2 checkpoints") {
  const auto model = build(kSmallGpt);
  const auto parameters = model->named_parameters();
  CHECK(parameters.keys() ==
        std::vector<std::string>{
            "transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.ln_1.weight",
            "transformer.h.0.ln_1.bias", "transformer.h.0.attn.c_attn.weight",
            "transformer.h.0.attn.c_attn.bias", "transformer.h.0.attn.c_proj.weight",
            "transformer.h.0.attn.c_proj.bias", "transformer.h.0.ln_2.weight",
            "transformer.h.0.ln_2.bias", "transformer.h.0.mlp.c_fc.weight",
            "transformer.h.0.mlp.c_fc.bias", "transformer.h.0.mlp.c_proj.weight",
            "transformer.h.0.mlp.c_proj.bias", "transformer.ln_f.weight", "transformer.ln_f.bias"});
  CHECK(parameters["transformer.h.0.attn.c_attn.weight"].sizes() == at::IntArrayRef{8, 24});
  CHECK(parameters["transformer.h.0.mlp.c_fc.weight"].sizes() == at::IntArrayRef{8, 32});
}

TEST_CASE("zoo: tokens of a gpt do not attend to later tokens") {
  const auto model = build(kSmallGpt);
  auto tokens = some_tokens({2, 6});
  const auto before = model->forward(text(tokens, tokens)).predictions;
  tokens.index_put_({0, 3}, (tokens[0][3] + 1).remainder(11));
  const auto after = model->forward(text(tokens, tokens)).predictions;
  CHECK(at::equal(before[0].slice(0, 0, 3), after[0].slice(0, 0, 3)));
  CHECK_FALSE(at::allclose(before[0][3], after[0][3]));
  CHECK(at::equal(before[1], after[1]));
}

TEST_CASE("zoo: a gpt's loss is the mean over targets that are not ignored, 0 without any") {
  const auto model = build(kSmallGpt);
  CHECK(model->target_name() == "tokens");
  model->eval();
  const auto tokens = some_tokens({2, 6});
  auto targets = some_tokens({2, 6});
  targets[1].slice(0, 2).fill_(-100);
  const auto outputs = model->forward(text(tokens, targets));
  const auto both = at::cat({targets[0], targets[1].slice(0, 0, 2)});
  const auto logits = at::cat({outputs.predictions[0], outputs.predictions[1].slice(0, 0, 2)});
  CHECK(outputs.count == 2);
  CHECK(outputs.targets.item<int64_t>() == 8);
  CHECK(outputs.loss.item<float>() ==
        Approx(at::cross_entropy_loss(logits, both).item<float>()).epsilon(1e-6));
  CHECK(outputs.sums.at("accuracy").item<int64_t>() ==
        logits.argmax(1).eq(both).sum().item<int64_t>());
  const auto none = model->forward(text(tokens, at::full({2, 6}, -100, at::kLong)));
  CHECK(none.loss.item<float>() == 0);
  none.loss.backward();
  for (const auto& parameter : model->parameters())
    CHECK(parameter.grad().abs().sum().item<float>() == 0);
}

TEST_CASE("zoo: dropout of a gpt affects training, not evaluation") {
  const auto model =
      build("{name: gpt, vocab_size: 11, context: 6, layers: 1, heads: 2, width: 8, dropout: 0.5}");
  const auto batch = text(some_tokens({2, 6}), some_tokens({2, 6}));
  const auto loss = [&] { return model->forward(batch).loss.item<float>(); };
  CHECK(loss() != loss());
  model->eval();
  CHECK(loss() == loss());
}

TEST_CASE("zoo: invalid tokens for a gpt are Config errors") {
  const auto error = [](const at::Tensor& tokens, const at::Tensor& targets) {
    return forward_error(kSmallGpt, text(tokens, targets));
  };
  const auto good = some_tokens({2, 6});
  CHECK(error(at::full({2, 6}, 11, at::kLong), good) ==
        "config: 'tokens' has token 11, but the model has a vocabulary of 11: tokens 0 to 10 are "
        "valid; was the data made with the tokenizer of another model? Models gpt and decoder: set "
        "model.vocab_size");
  CHECK(error(at::full({2, 6}, -100, at::kLong), good)
            .starts_with("config: 'tokens' has token -100"));
  CHECK(error(good, at::full({2, 6}, -1, at::kLong)).starts_with("config: 'targets' has token -1"));
  CHECK(error(some_tokens({2, 7}), some_tokens({2, 7})) ==
        "config: model gpt takes up to 6 tokens, but 'tokens' is [2, 7]; set model.context or the "
        "length of the samples");
  CHECK(error(good, some_tokens({2, 5})) ==
        "config: the model needs one target per token: 'targets' is [2, 5], expected [2, 6]");
  CHECK(error(at::zeros({2, 6}), good) ==
        "config: the model needs int64 tokens of equal length: 'tokens' is Float [2, 6], expected "
        "Long [B, T]");
  CHECK(error_of([] { build("{name: gpt, heads: 3}"); }) ==
        "config: model gpt: 3 heads do not divide a width of 128");
}

TEST_CASE("zoo: a resnet accepts images of any size, and has torchvision's names") {
  const auto model = build(kSmallResnet);
  for (const int64_t size : {9, 28, 40})
    CHECK(model->forward(images({2, 1, size, size + 1})).predictions.sizes() ==
          at::IntArrayRef{2, 10});
  const auto parameters = build("{name: resnet, depth: 50}")->named_parameters();
  CHECK(parameters.size() == 161);
  CHECK(parameters["layer4.0.downsample.0.weight"].sizes() == at::IntArrayRef{2048, 1024, 1, 1});
  CHECK(parameters["fc.weight"].sizes() == at::IntArrayRef{1000, 2048});
}

TEST_CASE("zoo: a resnet's blocks can be initialized as the identity") {
  const auto norm = [](const std::string& yaml) {
    return build(yaml)->named_parameters()["layer1.0.bn2.weight"].sum().item<float>();
  };
  CHECK(norm(kSmallResnet) == 64);
  CHECK(norm("{name: resnet, zero_init_residual: true}") == 0);
}

TEST_CASE("zoo: invalid images for a resnet or a vit are Config errors") {
  CHECK(
      forward_error("{name: resnet}", images({2, 1, 28, 28})) ==
      "config: model resnet takes float images [B, 3, H, W], but 'image' is Float [2, 1, 28, 28]; "
      "set model.in_channels");
  CHECK(forward_error(kSmallResnet, images({1, 1, 8, 8})) ==
        "config: model resnet cannot train on a batch of one image of 8x8: its norms need more "
        "than one value; use larger batches, data.drop_last or larger images");
  const auto use = [](int64_t last_batch_size) {
    return ModelUse{
        .device = "cpu", .batch_size = 4, .last_batch_size = last_batch_size, .first_samples = [] {
          return std::vector{images({1, 1, 8, 8})};
        }};
  };
  CHECK_NOTHROW(build(kSmallResnet)->verify(use(4)));
  CHECK(error_of([&] {
          build(kSmallResnet)->verify(use(1));
        }).starts_with("config: model resnet cannot train on a batch of one image"));
  CHECK(error_of([] { build("{name: resnet, depth: 20}"); }) ==
        "config: model resnet: invalid depth 20; valid: 18, 34, 50, 101, 152");
  CHECK(forward_error(kSmallVit, images({2, 1, 8, 9})) ==
        "config: model vit takes float images [B, 1, 8, 8], but 'image' is Float [2, 1, 8, 9]; set "
        "model.in_channels and model.image_size");
  CHECK(error_of([] { build("{name: vit, patch_size: 15}"); }) ==
        "config: model vit: patches of 15 pixels do not divide images of 224; set "
        "model.patch_size or model.image_size");
  CHECK(error_of([] { build("{name: vit, heads: 5}"); }) ==
        "config: model vit: 5 heads do not divide a width of 768");
}

TEST_CASE("zoo: images that are too small for a cnn are an error") {
  CHECK(error_of([] { build("{name: cnn, image_size: 10, channels: [4, 4, 4]}"); }) ==
        "config: model cnn: images of 10 pixels are too small for 3 convolutions; use fewer "
        "channels (the input of convolution 3 is empty)");
  CHECK(error_of([] { build("{name: cnn, channels: []}"); }) ==
        "config: model cnn: channels is empty; set at least one, e.g. [32, 64]");
  CHECK(error_of([] {
          build("{name: mlp, hidden: [0]}");
        }).starts_with("config: run.yaml:1: model.hidden[0]: expected at least 1"));
}

}  // namespace
}  // namespace lockstep::models
