#include "models/decoder/hf_rotary.h"

#include <fmt/format.h>

#include <cmath>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::models {
namespace {

double yarn_amplitude(const HfMap& map, double factor) {
  const auto scale = [&](double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
  };
  const auto all = map.number("mscale_all_dim", 0), mscale = map.number("mscale", 0);
  return all != 0 && mscale != 0 ? scale(mscale) / scale(all) : scale(1);
}

}  // namespace

Activation activation_of(const HfMap& map, const char* key, const char* fallback) {
  const auto name = map.text(key, fallback);
  if (name == "silu" || name == "swish") return Activation::Silu;
  if (name == "gelu") return Activation::Gelu;
  if (name == "gelu_pytorch_tanh" || name == "gelu_new" || name == "gelu_fast")
    return Activation::GeluTanh;
  if (name == "relu") return Activation::Relu;
  throw map.wrong(fmt::format("'{}' is '{}'; silu, gelu, gelu_pytorch_tanh and relu are supported",
                              key, printable(name, 100)));
}

RotaryConfig rotary_of(const HfMap& map, double theta, int64_t context) {
  RotaryConfig rotary{.theta = map.number("rope_theta", theta)};
  const auto type = map.text("rope_type", map.text("type", "default"));
  if (rotary.theta <= 1) throw map.wrong("'rope_theta' must be above 1");
  if (type == "default") return rotary;
  if (type != "linear" && type != "llama3" && type != "yarn")
    throw map.wrong(
        fmt::format("'rope_type' is '{}'; default, linear, llama3 and yarn are supported",
                    printable(type, 100)));
  rotary.original_context = map.size("original_max_position_embeddings", context);
  const auto ratio = static_cast<double>(context) / static_cast<double>(rotary.original_context);
  rotary.factor = type == "yarn" ? map.number("factor", ratio) : map.number("factor");
  if (rotary.factor <= 0) throw map.wrong("'factor' must be positive");
  if (type == "linear") {
    rotary.scaling = RotaryScaling::Linear;
  } else if (type == "llama3") {
    rotary.scaling = RotaryScaling::Llama3;
    rotary.low_freq_factor = map.number("low_freq_factor");
    rotary.high_freq_factor = map.number("high_freq_factor");
    if (rotary.low_freq_factor <= 0 || rotary.high_freq_factor <= rotary.low_freq_factor)
      throw map.wrong("'high_freq_factor' must be above 'low_freq_factor', and both positive");
  } else {
    rotary.scaling = RotaryScaling::Yarn;
    rotary.beta_fast = map.number("beta_fast", 32);
    rotary.beta_slow = map.number("beta_slow", 1);
    if (rotary.beta_fast <= 0 || rotary.beta_slow <= 0)
      throw map.wrong("'beta_fast' and 'beta_slow' must be positive");
    rotary.attention_factor = map.optional_number("attention_factor");
    if (!rotary.attention_factor) rotary.attention_factor = yarn_amplitude(map, rotary.factor);
    rotary.truncate = map.flag("truncate", true);
  }
  return rotary;
}

HfMap rope_settings(const HfMap& config, const char* layer_type) {
  for (const auto* key : {"rope_parameters", "rope_scaling"})
    if (config.has(key)) {
      const auto settings = config.map(key);
      return settings.has(layer_type) ? settings.map(layer_type) : settings;
    }
  return config;
}

std::optional<std::vector<bool>> read_sliding_layers(const HfMap& config, int64_t layers) {
  if (!config.has("layer_types")) return std::nullopt;
  const auto& types = config.at("layer_types");
  std::vector<bool> slides(static_cast<size_t>(layers));
  if (!types.is_array() || types.size() != slides.size())
    throw config.wrong(fmt::format("'layer_types' must be a list of {} types", layers));
  for (size_t i = 0; i < slides.size(); ++i) {
    if (types[i] != "sliding_attention" && types[i] != "full_attention")
      throw config.wrong(
          fmt::format("layer type {}; sliding_attention and full_attention are supported",
                      printable(types[i].dump(), 100)));
    slides[i] = types[i] == "sliding_attention";
  }
  return slides;
}

}  // namespace lockstep::models
