#include "models/encoder/stored_weights.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::models {
namespace {

// `name` with `from` at its end replaced; empty: it does not end so.
std::string with_ending(const std::string& name, const std::string& from, const std::string& to) {
  if (!name.ends_with(from)) return {};
  return name.substr(0, name.size() - from.size()) + to;
}

// The names that a tensor can have in a file, in the order in which they are tried.
std::vector<std::string> names_in_files(const std::string& name, const std::string& root) {
  std::vector<std::string> names = {
      name, with_ending(name, ".LayerNorm.weight", ".LayerNorm.gamma"),
      with_ending(name, ".LayerNorm.bias", ".LayerNorm.beta"),
      with_ending(name, "predictions.bias", "predictions.decoder.bias"),
      with_ending(name, "lm_head.bias", "lm_head.decoder.bias")};
  std::erase(names, "");
  // A model without a head was saved without the name of the encoder.
  const auto prefix = root + ".";
  for (size_t i = 0, count = names.size(); i < count; ++i)
    if (names[i].starts_with(prefix)) names.push_back(names[i].substr(prefix.size()));
  return names;
}

bool is_of_head(const std::string& name, const std::string& root) {
  return !name.starts_with(root + ".") || name.starts_with(root + ".pooler.");
}

// Whether a tensor of a file must be in the model: those of layers, embeddings and their norms.
bool is_of_encoder(std::string name, const std::string& root) {
  if (name.starts_with(root + ".")) name = name.substr(root.size() + 1);
  if (name.ends_with("position_ids") || name.ends_with("token_type_ids")) return false;
  return std::ranges::any_of(std::array{"embeddings.", "encoder.", "layers.", "final_norm."},
                             [&](const char* prefix) { return name.starts_with(prefix); });
}

}  // namespace

StoredWeights match_weights(const TensorShapes& model, const TensorShapes& stored,
                            const std::string& root, const std::string& file) {
  StoredWeights weights;
  std::set<std::string> used;
  for (const auto& [name, shape] : model) {
    const auto candidates = names_in_files(name, root);
    const auto found = std::ranges::find_if(
        candidates, [&](const std::string& candidate) { return stored.contains(candidate); });
    const bool fits = found != candidates.end() && stored.at(*found) == shape;
    if (!fits && is_of_head(name, root)) {
      weights.fresh.push_back(name);
      continue;
    }
    weights.names[name] = found != candidates.end() ? *found : name;
    used.insert(weights.names[name]);
  }
  for (const auto& [name, shape] : stored)
    if (!used.contains(name) && is_of_encoder(name, root))
      throw config_error(
          fmt::format("{} has '{}', which the model does not have: does config.json "
                      "belong to it?",
                      file, printable(name, 200)));
  return weights;
}

}  // namespace lockstep::models
