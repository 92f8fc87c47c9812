// `train.recompute`: activation checkpointing.
#pragma once

#include <string>
#include <vector>

#include "lockstep/config_value.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

// "none", "blocks", or a list of the names of blocks or of modules that contain them.
struct Recompute {
  bool all = false;
  std::vector<std::string> names;

  bool is_on() const { return all || !names.empty(); }
};

// Selects the blocks of `model` (lockstep::Block) that recompute their activations in the
// backward pass. Throws Config when it has no blocks, or when a name matches none.
void set_recompute(Model& model, const Recompute& choice);

}  // namespace lockstep::trainer

namespace lockstep {

template <>
struct ConfigValue<trainer::Recompute> {
  static trainer::Recompute read(const ConfigNode& node, const std::string& path);
  static Json dump(const trainer::Recompute& choice);
  static Json schema();
};

}  // namespace lockstep
