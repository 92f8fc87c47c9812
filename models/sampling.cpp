#include "models/sampling.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <limits>

namespace lockstep::models {
namespace {

constexpr double kImpossible = -std::numeric_limits<double>::infinity();
constexpr uint64_t kGoldenRatio = 0x9E3779B97F4A7C15, kSampleFactor = 0xBF58476D1CE4E5B9;

at::Tensor keep_top_k(const at::Tensor& logits, int64_t count) {
  const auto largest = std::get<0>(at::topk(logits, std::min(count, logits.size(0))));
  return logits.masked_fill(logits.lt(largest[-1]), kImpossible);
}

at::Tensor keep_top_p(const at::Tensor& logits, double share) {
  const auto [sorted, order] = at::sort(logits, 0, /*descending=*/false);
  auto removed = at::softmax(sorted, 0).cumsum(0).le(1 - share);
  removed[-1] = false;
  return logits.masked_fill(at::zeros_like(removed).scatter(0, order, removed), kImpossible);
}

at::Tensor keep_min_p(const at::Tensor& logits, double share) {
  const auto shares = at::softmax(logits, 0);
  return logits.masked_fill(shares.lt(shares.amax() * share), kImpossible);
}

}  // namespace

at::Tensor filter_logits(const at::Tensor& logits, const Sampling& sampling) {
  auto filtered = logits / sampling.temperature;
  if (sampling.top_k) filtered = keep_top_k(filtered, *sampling.top_k);
  if (sampling.top_p && *sampling.top_p < 1) filtered = keep_top_p(filtered, *sampling.top_p);
  if (sampling.min_p) filtered = keep_min_p(filtered, *sampling.min_p);
  return filtered;
}

at::Tensor penalize_repetition(const at::Tensor& logits, std::span<const int64_t> tokens,
                               double penalty) {
  const auto places = at::tensor(at::ArrayRef<int64_t>(tokens.data(), tokens.size()), at::kLong);
  const auto own = logits.gather(0, places);
  return logits.scatter(0, places, at::where(own.lt(0), own * penalty, own / penalty));
}

at::Generator generator_of(uint64_t seed, int64_t number, int64_t sample) {
  return at::make_generator<at::CPUGeneratorImpl>(seed ^
                                                  static_cast<uint64_t>(number) * kGoldenRatio ^
                                                  static_cast<uint64_t>(sample) * kSampleFactor);
}

int64_t choose_token(const at::Tensor& logits, const Sampling& sampling, at::Generator& generator) {
  if (sampling.temperature == 0) return logits.argmax().item<int64_t>();
  const auto shares = at::softmax(filter_logits(logits, sampling), 0);
  if (!shares.isfinite().all().item<bool>()) return logits.argmax().item<int64_t>();
  return at::multinomial(shares, 1, /*replacement=*/false, generator).item<int64_t>();
}

}  // namespace lockstep::models
