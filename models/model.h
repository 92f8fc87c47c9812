// A model turns a batch into a loss and predictions. It is a torch::nn::Module whose parameters
// carry the names of the same Python module, so that weights travel both ways.
#pragma once

#include <torch/nn/module.h>

#include <map>
#include <string>

#include "core/registry.h"
#include "data/batch.h"

namespace lockstep {

// What one forward pass of a batch gives.
struct Outputs {
  at::Tensor loss;         // scalar: the mean over `count`; defined when the batch carries targets
  int64_t count = 0;       // samples the mean is over: all of the batch
  at::Tensor predictions;  // raw outputs, e.g. logits [B, K]
  // Further sums over `count`, as scalars on the model's device; accuracy is {"accuracy", number
  // correct}.
  std::map<std::string, at::Tensor> sums;
};

class Model : public torch::nn::Module {
 public:
  // Uses train()/eval() mode as any module does. Throws Config when the batch does not fit the
  // model.
  virtual Outputs forward(const Batch& batch) = 0;
};

using ModelRegistry = Registry<Model>;
ModelRegistry& model_registry();

}  // namespace lockstep

// Once per model, at namespace scope of its file. `type`: a Model with a Config and a constructor
// from it.
#define REGISTER_MODEL(name, type, help)                                                           \
  static const ::lockstep::Registration<type> registration_of_##type(::lockstep::model_registry(), \
                                                                     name, help)
