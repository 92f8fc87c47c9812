// Low-rank adapters (Hu et al., "LoRA", 2021): a projection computes W x + s B A x, and only A and B
// are trained. With DoRA (Liu et al., 2024), each row of W + s B A is scaled to a trained magnitude.
// Names and files are those of PEFT.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <map>
#include <string>
#include <vector>

#include "lockstep/model.h"
#include "models/decoder/lora_config.h"

namespace lockstep::models {

// What is trained of a model with adapters, by name.
struct Adapters {
  std::vector<std::string> projections;  // with adapters
  std::vector<std::string> saved;        // parameters that are trained in full
};

// Adds adapters to the chosen projections of `model`, and freezes all other parameters except those
// of config.modules_to_save. `has_values`: whether the weights have their values. Throws Config if a
// name matches nothing. `name`: of the model, for messages.
Adapters add_lora(torch::nn::Module& model, const LoraConfig& config, bool has_values,
                  const std::string& name);

// The name in PEFT's file of a tensor of an adapter.
std::string name_in_peft(const std::string& name);

// The tensors of an adapter: their names in the model, and in PEFT's file.
std::map<std::string, std::string> names_in_peft(const LoraConfig& config,
                                                 const Adapters& adapters);

// The files of an adapter in PEFT's layout. `base`: the directory of the base model.
ExportedFiles peft_files(const LoraConfig& config, const Adapters& adapters,
                         const std::string& base);

// The weight [out, in] of a projection with its adapter: `b` [out, rank], `a` [rank, in].
// `magnitude` [out]: with DoRA, else undefined. The type is that of `weight`.
at::Tensor merged_weight(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                         const at::Tensor& magnitude, double scale);

// The norms of the rows of W + s B A [out].
at::Tensor row_norms(const at::Tensor& weight, const at::Tensor& a, const at::Tensor& b,
                     double scale);

}  // namespace lockstep::models
