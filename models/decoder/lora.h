// Low-rank adapters (Hu et al., "LoRA", 2021): a projection computes W x + s B A x, and only A and B
// are trained. Names and files are those of PEFT.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/model.h"

namespace lockstep::models {

struct LoraConfig {
  int64_t rank = 0;  // 0: no adapters
  double alpha = 16, dropout = 0;
  std::vector<std::string> targets;
  bool rslora = false;

  double scale() const;  // of the product B A
};

template <class V>
void fields(V& v, LoraConfig& c) {
  v("rank", c.rank,
    "rank of the low-rank adapters that are trained instead of the weights; 0: none", at_least(0));
  v("alpha", c.alpha, "the adapters' output is scaled by alpha / rank", above(0));
  v("dropout", c.dropout, "dropout probability of the adapters' input", at_least(0), below(1));
  v("targets", c.targets,
    "projections with adapters, by the last parts of their names, e.g. [q_proj, v_proj]; default: "
    "all in "
    "the layers");
  v("rslora", c.rslora, "whether to scale by alpha / sqrt(rank) instead (rank-stabilized LoRA)");
}

// Adds adapters to the chosen projections of `model`, and freezes all other parameters. Returns the
// names of the projections. Throws Config if a target names none. `name`: of the model, for messages.
std::vector<std::string> add_lora(torch::nn::Module& model, const LoraConfig& config,
                                  const std::string& name);

// The files of an adapter in PEFT's layout. `projections`: from add_lora(). `base`: the directory of
// the base model.
ExportedFiles peft_files(const LoraConfig& config, const std::vector<std::string>& projections,
                         const std::string& base);

}  // namespace lockstep::models
