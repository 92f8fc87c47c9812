// Generation with a cache of keys and values equals a forward pass over all tokens.
#include "models/language_model.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include <catch2/catch.hpp>

#include "lockstep/model.h"
#include "lockstep/part.h"
#include "models/language.h"

namespace lockstep::models {
namespace {

constexpr int64_t kTextVocabulary = 31;

std::shared_ptr<Model> build_language_model(const std::string& yaml) {
  Part<Model> part(model_registry());
  part.read(parse_config(yaml, "run.yaml"), "model");
  at::manual_seed(0);
  auto model = part.build();
  model->eval();
  const at::NoGradGuard no_grad;
  for (auto& parameter : model->parameters()) parameter.add_(at::randn_like(parameter), 0.2);
  return model;
}

at::Tensor all_logits(Model& model, const at::Tensor& tokens) {
  return model.forward({.fields = {{"tokens", tokens}}, .indices = at::zeros({1}, at::kLong)})
      .predictions;
}

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>();
}

constexpr const char* kModels[] = {
    "{name: gpt, vocab_size: 31, context: 24, layers: 2, heads: 2, width: 16}",
    "{name: decoder, vocab_size: 31, context: 24, layers: 2, heads: 4, width: 16, kv_heads: 2}",
    "{name: decoder, vocab_size: 31, context: 24, layers: 2, heads: 2, width: 16, window: 5}",
    "{name: decoder, vocab_size: 31, context: 24, layers: 2, heads: 2, width: 16, experts: 3}",
};

TEST_CASE("language model: passes with a cache have the logits of one pass") {
  const at::InferenceMode inference;
  for (const auto* yaml : kModels) {
    INFO(yaml);
    const auto model = build_language_model(yaml);
    auto& language = dynamic_cast<LanguageModel&>(*model);
    CHECK(language.context_size() == 24);
    CHECK(language.vocabulary_size() == kTextVocabulary);
    const auto tokens = at::randint(kTextVocabulary, {2, 20}, at::kLong);
    const auto expected = all_logits(*model, tokens);
    CHECK(expected.std().item<double>() > 0.1);
    KeyValueCache cache(2, 20);
    for (const auto& [from, count] : {std::pair<int64_t, int64_t>{0, 7}, {7, 1}, {8, 4}, {12, 8}}) {
      const auto logits =
          language.next_logits(tokens.narrow(1, from, count), {count, count}, cache);
      CHECK(difference(logits, expected.select(1, from + count - 1)) < 1e-5);
    }
    CHECK(cache.lengths() == std::vector<int64_t>{20, 20});
  }
}

TEST_CASE("language model: sequences of different lengths, of which some are dropped") {
  const at::InferenceMode inference;
  for (const auto* yaml : kModels) {
    INFO(yaml);
    const auto model = build_language_model(yaml);
    auto& language = dynamic_cast<LanguageModel&>(*model);
    const auto tokens = at::randint(kTextVocabulary, {3, 16}, at::kLong);
    const auto expected = all_logits(*model, tokens);
    KeyValueCache cache(3, 16);
    std::vector<int64_t> lengths = {3, 9, 6}, rows = {0, 1, 2};
    // Beyond its length, a row holds tokens of something else.
    auto first = tokens.narrow(1, 0, 9).clone();
    first[0].narrow(0, 3, 6).fill_(1);
    first[2].narrow(0, 6, 3).fill_(2);
    auto logits = language.next_logits(first, lengths, cache);
    for (int step = 0; step < 6; ++step) {
      std::vector<int64_t> next;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto of_row = expected[rows[i]];
        CHECK(difference(logits[static_cast<int64_t>(i)], of_row[lengths[i] - 1]) < 1e-5);
        next.push_back(tokens[rows[i]][lengths[i]++].item<int64_t>());
      }
      if (step == 2) {
        cache.keep({0, 2});
        rows = {0, 2};
        lengths = {lengths[0], lengths[2]};
        next = {next[0], next[2]};
      }
      logits = language.next_logits(at::tensor(next, at::kLong).unsqueeze(1),
                                    std::vector<int64_t>(rows.size(), 1), cache);
    }
  }
}

TEST_CASE("language model: padding of a vocabulary changes neither loss nor gradients") {
  at::manual_seed(0);
  const auto x = at::randn({2, 5, 8});
  const Batch batch{.fields = {{"targets", at::randint(kTextVocabulary, {2, 5}, at::kLong)}},
                    .indices = at::zeros({2}, at::kLong)};
  const auto pass = [&](int64_t multiple) {
    at::manual_seed(1);
    auto weight = at::randn({kTextVocabulary, 8}).requires_grad_();
    const auto input = x.clone().requires_grad_();
    const auto logits = at::linear(input, padded_vocabulary(weight, multiple));
    hide_padding(logits, kTextVocabulary);
    CHECK(logits.size(2) == (multiple == 1 ? 31 : 32));
    const auto outputs = language_outputs(
        logits, batch, {.vocab_size = kTextVocabulary, .with_accuracy = true, .z_loss = 0.01});
    outputs.loss.backward();
    return std::vector<at::Tensor>{outputs.loss, outputs.predictions, outputs.sums.at("accuracy"),
                                   input.grad(), weight.grad()};
  };
  const auto plain = pass(1), padded = pass(8);
  for (size_t i = 0; i < plain.size(); ++i) {
    INFO(i);
    REQUIRE(padded[i].sizes() == plain[i].sizes());
    CHECK(at::allclose(padded[i].to(at::kFloat), plain[i].to(at::kFloat), 1e-5, 1e-6));
  }
}

TEST_CASE("language model: a cache does not grow beyond its capacity") {
  KeyValueCache cache(1, 4);
  CHECK_THROWS(cache.begin({5}, 5, at::kCPU));
}

}  // namespace
}  // namespace lockstep::models
