#include "trainer/state/dropout_schedule.h"

#include <ATen/ATen.h>
#include <torch/nn/modules/dropout.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>

#include "lockstep/part.h"
#include "lockstep/world.h"
#include "tests/data/error_of.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

std::shared_ptr<Model> built(const std::string& yaml) {
  Part<Model> part(model_registry());
  part.read(parse_config(yaml, "run.yaml"), "model");
  at::manual_seed(0);
  return part.build();
}

DropoutConfig dropout_config(const std::string& yaml) {
  DropoutConfig config;
  read_fields(parse_config(yaml, "run.yaml"), "train.dropout", config);
  return config;
}

std::shared_ptr<DropoutSchedule> schedule_of(const std::string& yaml, Model& model,
                                             bool cuda_graph = false) {
  return DropoutSchedule::create(dropout_config(yaml), model, "model 'x'", cuda_graph);
}

// As the trainer: before step `step`.
void begin_step(DropoutSchedule& schedule, Model& model, int64_t step) {
  const auto connected = World::connect({.device = DeviceChoice::Cpu});
  Tracker tracker;
  HookContext context{*connected, model, tracker, "", 100, step};
  schedule.before_step(context);
}

std::vector<double> probabilities(const Model& model) {
  std::vector<double> found;
  for (const auto& module : model.modules())
    if (const auto* dropout = module->as<torch::nn::DropoutImpl>())
      found.push_back(dropout->options.p());
  return found;
}

struct NoSettings {};
template <class V>
void fields(V&, NoSettings&) {}

// A model as of a plugin, with torch's own modules.
class Ordinary final : public Model {
 public:
  using Config = NoSettings;
  explicit Ordinary(const Config& = {}, bool has_backward = false) : has_backward_(has_backward) {}
  Outputs forward(const Batch& batch) override {
    const auto y = second_->forward(first_->forward(batch.at("x")));
    return {.loss = y.sum(), .count = batch.size(), .predictions = y};
  }
  bool has_backward() const override { return has_backward_; }

  torch::nn::Dropout first_{register_module("first", torch::nn::Dropout(0.5))};
  torch::nn::Dropout2d second_{register_module("second", torch::nn::Dropout2d(0.25))};

 private:
  bool has_backward_;
};

Batch text_batch() {
  at::manual_seed(1);
  return {.fields = {{"tokens", at::randint(2, 11, {2, 6}, at::kLong)},
                     {"targets", at::randint(2, 11, {2, 6}, at::kLong)},
                     {"image", at::rand({2, 1, 8, 8})},
                     {"label", at::arange(2)}},
          .indices = at::arange(2)};
}

// A training pass: the loss and the sum of each gradient.
std::vector<double> trained_pass(Model& model) {
  at::manual_seed(2);
  const auto outputs = model.forward(text_batch());
  outputs.loss.backward();
  std::vector<double> sums = {outputs.loss.item<double>()};
  for (const auto& parameter : model.parameters())
    sums.push_back(parameter.grad().defined() ? parameter.grad().sum().item<double>() : 0);
  return sums;
}

// A directory with the configuration of an encoder.
std::string encoder_yaml(const std::filesystem::path& directory, const std::string& config) {
  std::filesystem::create_directories(directory);
  std::ofstream(directory / "config.json") << config;
  return "{name: hf_encoder, weights: false, task: tokens, labels: 11, path: '" +
         directory.string() + "'}";
}

TEST_CASE("train.dropout: the factor depends on the step only") {
  const auto factors = [](const std::string& yaml) {
    const auto model = std::make_shared<Ordinary>();
    const auto schedule = schedule_of(yaml, *model);
    std::vector<double> found;
    for (int64_t step = 0; step < 8; ++step) found.push_back(schedule->factor(step));
    return found;
  };
  CHECK(factors("{schedule: linear, after: 2, steps: 4}") ==
        std::vector<double>{0, 0, 0, 0.25, 0.5, 0.75, 1, 1});
  CHECK(factors("{schedule: linear, start: 1, end: 0.5, after: 3}") ==
        std::vector<double>{1, 1, 1, 0.5, 0.5, 0.5, 0.5, 0.5});
  CHECK(factors("{schedule: linear, start: 0.5, end: 0, steps: 2}") ==
        std::vector<double>{0.5, 0.25, 0, 0, 0, 0, 0, 0});
  const auto cosine = factors("{schedule: cosine, start: 1, end: 0.5, steps: 4}");
  CHECK(cosine[0] == 1);
  CHECK(cosine[1] == Approx(0.5 + 0.25 * (1 + std::sqrt(0.5))));
  CHECK(cosine[2] == Approx(0.75));
  CHECK(cosine[4] == 0.5);
}

TEST_CASE("train.dropout: each layer has its own probability times the factor") {
  const auto model = std::make_shared<Ordinary>();
  const auto schedule = schedule_of("{schedule: linear, steps: 4}", *model);
  for (const int64_t step : {1, 3, 2, 9}) {  // in any order
    begin_step(*schedule, *model, step);
    const auto factor = std::min(1.0, static_cast<double>(step) / 4);
    CHECK(model->first_->options.p() == 0.5 * factor);
    CHECK(model->second_->options.p() == 0.25 * factor);
  }
}

TEST_CASE("train.dropout: with factor 0, models have the bits of those without dropout") {
  const TemporaryDirectory directory;
  const auto encoder = [&](const std::string& name, const std::string& dropout) {
    const auto sizes = std::string(
        R"("vocab_size": 11, "hidden_size": 8, "intermediate_size": 16, "num_hidden_layers": 2,
           "num_attention_heads": 2, "max_position_embeddings": 16, "pad_token_id": 0, )");
    const auto bert = R"({"model_type": "bert", "hidden_dropout_prob": )" + dropout +
                      R"(, "attention_probs_dropout_prob": )" + dropout;
    const auto modern = R"({"model_type": "modernbert", "local_attention": 4, "mlp_dropout": )" +
                        dropout + R"(, "embedding_dropout": )" + dropout +
                        R"(, "classifier_dropout": )" + dropout + R"(, "attention_dropout": )" +
                        dropout;
    auto config = (name == "bert" ? bert : modern) + ", " + sizes;
    config.erase(config.rfind(','));
    return encoder_yaml(directory.path() / (name + dropout), config + "}");
  };
  const auto yaml = [&](const std::string& name, const std::string& dropout) {
    if (name == "bert" || name == "modernbert") return encoder(name, dropout);
    if (name == "vit")
      return "{name: vit, image_size: 8, patch_size: 4, layers: 2, heads: 2, width: 8, mlp_width: "
             "16, in_channels: 1, classes: 10, attention_dropout: " +
             dropout + ", dropout: " + dropout + "}";
    return "{name: " + name +
           ", vocab_size: 11, context: 6, layers: 2, heads: 2, width: 8, dropout: " + dropout + "}";
  };
  for (const std::string name : {"gpt", "vit", "decoder", "bert", "modernbert"}) {
    INFO(name);
    const auto with = built(yaml(name, "0.5")), without = built(yaml(name, "0.0"));
    CHECK(probabilities(*with).size() >= 4);
    CHECK(trained_pass(*with) != trained_pass(*without));
    for (auto& model : {with, without}) model->zero_grad();
    const auto schedule = schedule_of("{schedule: linear, after: 5}", *with);
    begin_step(*schedule, *with, 4);
    CHECK(trained_pass(*with) == trained_pass(*without));
    begin_step(*schedule, *with, 5);
    CHECK(trained_pass(*with) != trained_pass(*without));
  }
}

TEST_CASE("train.dropout: what cannot change is refused") {
  const auto ordinary = std::make_shared<Ordinary>();
  const auto compiled = std::make_shared<Ordinary>(NoSettings{}, /*has_backward=*/true);
  CHECK_THAT(error_of([&] { schedule_of("{schedule: linear}", *compiled); }),
             Catch::StartsWith("config: train.dropout has no effect on a compiled model"));
  CHECK_THAT(error_of([&] { schedule_of("{schedule: linear}", *ordinary, /*cuda_graph=*/true); }),
             Catch::StartsWith("config: train.dropout cannot be combined with train.cuda_graph"));
  const auto without = built("{name: gpt, layers: 1}");
  CHECK_THAT(error_of([&] { schedule_of("{schedule: linear}", *without); }),
             Catch::StartsWith("config: train.dropout has no effect: model 'x' has no dropout"));
  CHECK(schedule_of("{}", *without) == nullptr);
}

}  // namespace
