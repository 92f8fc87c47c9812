#include "models/decoder/decoder_config.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::models {

void verify_decoder(const DecoderConfig& c, const std::string& model) {
  const auto refuse = [&](const std::string& problem) {
    throw config_error(fmt::format("model {}: {}", model, problem));
  };
  if (c.heads % c.kv_heads != 0)
    refuse(fmt::format("{} heads cannot share {} key-value heads: the number must divide the heads",
                       c.heads, c.kv_heads));
  if (c.head_dim % 2 != 0 || c.rotary_dim % 2 != 0 || c.rotary_dim > c.head_dim)
    refuse(
        fmt::format("rotary embeddings of {} elements in heads of {}: expected even numbers, at "
                    "most the size of a head",
                    c.rotary_dim, c.head_dim));
  if (!c.slides.empty() && c.window < 1)
    refuse(fmt::format("a sliding window of {} tokens: expected at least 1", c.window));
  if (!c.slides.empty() && c.slides.size() != static_cast<size_t>(c.layers))
    refuse(fmt::format("{} layer types for {} layers", c.slides.size(), c.layers));
  if (c.experts.count > 0 && c.experts.per_token > c.experts.count)
    refuse(fmt::format("{} experts per token of {}", c.experts.per_token, c.experts.count));
}

}  // namespace lockstep::models
