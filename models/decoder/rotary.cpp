#include "models/decoder/rotary.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

namespace lockstep::models {
namespace {

// theta^(2 i / dim) of each pair i.
at::Tensor periods(const RotaryConfig& config, int64_t dim) {
  return at::pow(config.theta, at::arange(0, dim, 2, at::kLong).to(at::kFloat) / dim);
}

// Low frequencies are divided by the factor, high ones are not, with a linear transition.
at::Tensor llama3_frequencies(const RotaryConfig& config, const at::Tensor& plain) {
  const auto original = static_cast<double>(config.original_context);
  const auto wavelength = 2 * std::numbers::pi / plain;
  const auto smooth = (original / wavelength - config.low_freq_factor) /
                      (config.high_freq_factor - config.low_freq_factor);
  const auto scaled = plain / config.factor;
  const auto between = (1 - smooth) * scaled + smooth * plain;
  return at::where(wavelength > original / config.low_freq_factor, scaled,
                   at::where(wavelength < original / config.high_freq_factor, plain, between));
}

// The pair that turns `turns` times within the original context.
double yarn_pair(const RotaryConfig& config, int64_t dim, double turns) {
  return static_cast<double>(dim) *
         std::log(static_cast<double>(config.original_context) / (turns * 2 * std::numbers::pi)) /
         (2 * std::log(config.theta));
}

at::Tensor yarn_frequencies(const RotaryConfig& config, int64_t dim) {
  auto low = yarn_pair(config, dim, config.beta_fast),
       high = yarn_pair(config, dim, config.beta_slow);
  if (config.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::max(low, 0.0);
  high = std::min(high, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;
  const auto ramp = ((at::arange(dim / 2, at::kFloat) - low) / (high - low)).clamp(0, 1);
  const auto kept = 1 - ramp;
  const auto all = periods(config, dim);
  return 1 / (config.factor * all) * (1 - kept) + 1 / all * kept;
}

at::Tensor frequencies(const RotaryConfig& config, int64_t dim) {
  switch (config.scaling) {
    case RotaryScaling::None: return 1 / periods(config, dim);
    case RotaryScaling::Linear: return 1 / periods(config, dim) / config.factor;
    case RotaryScaling::Llama3: return llama3_frequencies(config, 1 / periods(config, dim));
    case RotaryScaling::Yarn: return yarn_frequencies(config, dim);
  }
  return {};
}

// YaRN scales queries and keys, against the higher entropy of longer contexts.
double amplitude(const RotaryConfig& config) {
  if (config.scaling != RotaryScaling::Yarn) return 1;
  const auto usual = config.factor <= 1 ? 1 : 0.1 * std::log(config.factor) + 1;
  return config.attention_factor.value_or(usual);
}

}  // namespace

RotaryTable rotary_table(const RotaryConfig& config, int64_t dim, int64_t tokens, int64_t context,
                         at::Device device) {
  auto scaled = config;
  if (scaled.original_context == 0) scaled.original_context = context;
  const auto angles = at::arange(tokens, at::kFloat).unsqueeze(1) * frequencies(scaled, dim);
  const auto both = at::cat({angles, angles}, 1);
  return {(both.cos() * amplitude(config)).to(device), (both.sin() * amplitude(config)).to(device)};
}

RotaryTable RotaryTable::at(const at::Tensor& positions_BT) const {
  const auto chosen = [&](const at::Tensor& all) {
    return at::embedding(all, positions_BT).unsqueeze(1);
  };
  return {chosen(cosine), chosen(sine)};
}

namespace {

// `rotated`, followed by the elements of `x` that are not rotated.
at::Tensor with_rest(const at::Tensor& rotated, const at::Tensor& x) {
  const auto dim = rotated.size(3);
  if (x.size(3) == dim) return rotated;
  return at::cat({rotated, x.narrow(3, dim, x.size(3) - dim)}, 3);
}

// `direction`: 1, or -1 for the inverse rotation, which is that of gradients.
at::Tensor turned(const at::Tensor& x, const at::Tensor& cosine, const at::Tensor& sine,
                  double direction) {
  const auto in = x.chunk(2, 3), sines = sine.chunk(2, -1);
  auto y = x * cosine;
  const auto out = y.chunk(2, 3);
  out[0].addcmul_(in[1], sines[0], -direction);
  out[1].addcmul_(in[0], sines[1], direction);
  return y;
}

struct Rotation : torch::autograd::Function<Rotation> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x,
                            const at::Tensor& cosine, const at::Tensor& sine) {
    context->save_for_backward({cosine, sine});
    return turned(x, cosine, sine, 1);
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const auto saved = context->get_saved_variables();
    return {turned(gradients[0], saved[0], saved[1], -1), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

at::Tensor rotate(const at::Tensor& x, const RotaryTable& table) {
  if (x.is_cuda()) return rotate_with_fewer_passes(x, table);
  const auto dim = table.cosine.size(-1);
  const auto rotated = x.size(3) == dim ? x : x.narrow(3, 0, dim);
  const auto halves = rotated.chunk(2, 3);
  return with_rest(rotated * table.cosine.to(x.scalar_type()) +
                       at::cat({-halves[1], halves[0]}, 3) * table.sine.to(x.scalar_type()),
                   x);
}

at::Tensor rotate_with_fewer_passes(const at::Tensor& x, const RotaryTable& table) {
  const auto type = x.scalar_type();
  const auto rotated = x.narrow(3, 0, table.cosine.size(-1));
  return with_rest(Rotation::apply(rotated, table.cosine.to(type), table.sine.to(type)), x);
}

}  // namespace lockstep::models
