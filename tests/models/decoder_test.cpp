// Several documents in one sample of a decoder.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>

#include "lockstep/model.h"
#include "lockstep/part.h"
#include "models/decoder/rotary.h"
#include "tests/data/error_of.h"

namespace lockstep::models {
namespace {

constexpr int64_t kVocabulary = 50;
constexpr const char* kFull = "";
constexpr const char* kSliding = ", window: 5";
constexpr const char* kExperts = ", experts: 3, qk_norm: true";

std::shared_ptr<Model> small_decoder(const std::string& more) {
  Part<Model> part(model_registry());
  part.read(parse_config("{name: decoder, vocab_size: 50, context: 1024, layers: 2, width: 16, "
                         "heads: 2, kv_heads: 1" +
                             more + "}",
                         "run.yaml"),
            "model");
  at::manual_seed(0);
  return part.build();
}

at::Tensor tokens_of(int64_t seed, int64_t count) {
  at::manual_seed(static_cast<uint64_t>(seed));
  return at::randint(kVocabulary, {1, count}, at::kLong);
}

at::Tensor no_targets(int64_t count) { return at::full({1, count}, -100, at::kLong); }

at::Tensor numbered(int64_t number, int64_t count) {
  return at::full({1, count}, number, at::kLong);
}

// A sample of a document of `before` tokens, one that is learned, and one of `after` tokens.
Batch three_documents(const at::Tensor& learned, int64_t before, int64_t after, int64_t seed) {
  const auto count = learned.size(1);
  return {.fields = {{"tokens",
                      at::cat({tokens_of(seed, before), learned, tokens_of(seed + 1, after)}, 1)},
                     {"targets", at::cat({no_targets(before), learned, no_targets(after)}, 1)},
                     {"documents",
                      at::cat({numbered(0, before), numbered(1, count), numbered(2, after)}, 1)}},
          .indices = at::zeros({1}, at::kLong)};
}

std::vector<at::Tensor> gradients(const std::string& more, const Batch& batch) {
  const auto model = small_decoder(more);
  model->train();
  const auto outputs = model->forward(batch);
  outputs.loss.backward();
  std::vector<at::Tensor> all = {outputs.loss.detach()};
  for (const auto& parameter : model->parameters()) all.push_back(parameter.grad());
  return all;
}

TEST_CASE("decoder: the gradient of a document does not depend on its neighbors, to the bit") {
  for (const auto* more : {kFull, kSliding})
    for (const int64_t before : {7, 600}) {  // within and outside of a block of the attention
      INFO(more << " " << before);
      const auto learned = tokens_of(1, 20);
      const auto first = gradients(more, three_documents(learned, before, 9, 10));
      const auto second = gradients(more, three_documents(learned, before, 9, 20));
      REQUIRE(first[0].item<double>() > 1);
      for (size_t i = 0; i < first.size(); ++i) CHECK(at::equal(first[i], second[i]));
    }
}

// How many tokens of the neighbors an expert gets changes how its sums are rounded.
TEST_CASE("decoder: with experts, the gradient depends on neighbors by rounding only") {
  const auto learned = tokens_of(1, 20);
  const auto first = gradients(kExperts, three_documents(learned, 7, 9, 10));
  const auto second = gradients(kExperts, three_documents(learned, 7, 9, 20));
  for (size_t i = 0; i < first.size(); ++i) CHECK(at::allclose(first[i], second[i], 1e-5, 1e-7));
}

TEST_CASE("decoder: a document among others is computed as alone") {
  for (const auto* more : {kFull, kSliding, kExperts}) {
    INFO(more);
    const auto learned = tokens_of(2, 20);
    const Batch alone{.fields = {{"tokens", learned}, {"targets", learned}},
                      .indices = at::zeros({1}, at::kLong)};
    const auto expected = gradients(more, alone);
    const auto packed = gradients(more, three_documents(learned, 7, 9, 10));
    for (size_t i = 0; i < expected.size(); ++i)
      CHECK(at::allclose(expected[i], packed[i], 1e-4, 1e-6));
  }
}

TEST_CASE("decoder: one document is computed as a sample without documents") {
  const auto model = small_decoder(kFull);
  const auto tokens = tokens_of(3, 20);
  Batch batch{.fields = {{"tokens", tokens}}, .indices = at::zeros({1}, at::kLong)};
  const auto without = model->forward(batch).predictions;
  batch.fields.emplace_back("documents", numbered(4, 20));
  CHECK(at::allclose(without, model->forward(batch).predictions, 1e-5, 1e-6));
}

TEST_CASE("decoder: documents of another shape are an error") {
  const auto model = small_decoder(kFull);
  const Batch batch{.fields = {{"tokens", tokens_of(3, 20)}, {"documents", numbered(0, 19)}},
                    .indices = at::zeros({1}, at::kLong)};
  CHECK(error_of([&] { model->forward(batch); }).find("'documents' is Long [1, 19], expected") !=
        std::string::npos);
}

TEST_CASE("rotary embeddings with fewer passes have the same values and gradients") {
  const auto dim = GENERATE(4, 6, 8);  // of 8 elements of a head
  const auto table = rotary_table({}, dim, 5, 5, at::kCPU);
  at::manual_seed(0);
  const auto weight = at::randn({2, 3, 5, 8});
  const auto by_token = at::randn({2, 5, 3, 8});
  std::vector<at::Tensor> values, gradients;
  for (const auto& rotates : {rotate, rotate_with_fewer_passes}) {
    const auto x = by_token.clone().requires_grad_();
    const auto y = rotates(x.transpose(1, 2), table);
    (y * weight).sum().backward();
    values.push_back(y.detach());
    gradients.push_back(x.grad());
  }
  CHECK(at::allclose(values[0], values[1], 1e-6, 1e-6));
  CHECK(at::allclose(gradients[0], gradients[1], 1e-6, 1e-6));
  CHECK_FALSE(at::allclose(values[0], by_token.transpose(1, 2)));
}

}  // namespace
}  // namespace lockstep::models
