// How the next token is chosen from a model's logits.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>

namespace lockstep::models {

struct Sampling {
  double temperature = 0;  // 0: the most likely token
  std::optional<int64_t> top_k;
  std::optional<double> top_p, min_p;
  std::optional<double> repetition_penalty;  // also without a temperature
};

// Divides logits [V] by the temperature, which must not be 0, and sets those that may not be chosen
// to -inf: first all but the largest `top_k` (and those equal to the smallest of them), then the
// least likely tokens whose probabilities together are at most 1 - top_p, then those whose
// probability is below min_p times the largest one. Equals the logits processors of transformers.
at::Tensor filter_logits(const at::Tensor& logits, const Sampling& sampling);

// Logits [V] in which those of `tokens` are divided by `penalty` if they are positive, and multiplied
// by it if they are negative (Keskar et al., 2019). Equals transformers' repetition_penalty.
at::Tensor penalize_repetition(const at::Tensor& logits, std::span<const int64_t> tokens,
                               double penalty);

// The random numbers of one text: a function of the seed, of the number of its prompt and of the
// number of the sample of this prompt, so that a text does not depend on the others. Separate from
// the random numbers of training.
at::Generator generator_of(uint64_t seed, int64_t number, int64_t sample = 0);

// Chooses a token from logits [V], float32 on the CPU, which are penalized already. Logits that are not finite choose the first
// largest one.
int64_t choose_token(const at::Tensor& logits, const Sampling& sampling, at::Generator& generator);

}  // namespace lockstep::models
