// A model turns a batch into a loss and predictions. It is a torch::nn::Module whose parameters
// carry the names of the same Python module, so that weights travel both ways.
#pragma once

#include <torch/nn/module.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/config/registry.h"
#include "data/batch.h"

namespace lockstep {

// What one forward pass of a batch gives.
struct Outputs {
  at::Tensor loss;    // scalar: a mean; defined when the batch carries targets
  int64_t count = 0;  // samples the mean is over: all of the batch
  at::Tensor
      targets;  // only with Model::target_name(): count_targets(), which loss and sums are over
  at::Tensor predictions;  // raw outputs, e.g. logits [B, K]
  // Further sums over what the loss is a mean over, as scalars on the model's device; accuracy is
  // {"accuracy", number correct}.
  std::map<std::string, at::Tensor> sums;
};

// A part of a backward pass: makes the gradients of some parameters.
using GradientSegment = std::function<std::vector<at::Tensor>()>;

// What a forward and a backward pass give together.
struct StepOutputs {
  Outputs outputs;
  // Of the trainable parameters, in their order; nobody else's. Those of the first ones are missing
  // where the backward pass comes in segments.
  std::vector<at::Tensor> gradients;
  // Each makes the gradients before those that there are; once, in this order, before the model is
  // used again.
  std::vector<GradientSegment> remaining_segments;
};

// How a run is going to use a model; known before ranks meet.
struct ModelUse {
  std::string device;                     // "cpu" or "cuda"
  std::function<std::string()> gpu = {};  // its architecture, e.g. "sm_90"
  // Of a rank, and the last one of an epoch; 0: nothing is trained.
  int64_t batch_size = 0, last_batch_size = 0;
  int64_t eval_batch_size = 0;    // the largest one; 0: nothing is evaluated
  bool is_uneven = false;         // other ranks have one sample more in some batches
  bool may_lack_samples = false;  // batches are smaller where samples cannot be loaded
  // The first of the training set and, where there is one, of the evaluation set; read when called;
  // fewer where samples may be lacking.
  std::function<std::vector<Batch>()> first_samples = {};
};

class Model : public torch::nn::Module {
 public:
  // Uses train()/eval() mode as any module does. Throws Config when the batch does not fit the
  // model.
  virtual Outputs forward(const Batch& batch) = 0;

  // What the loss is a mean over where that is not the samples, in plural, e.g. "tokens"; batches
  // may then have different numbers of them. Empty: samples.
  virtual std::string target_name() const { return {}; }

  // How many of those `batch` has, int64 scalar on its device; 0 is possible, the loss is then 0.
  // Asked before the forward passes of a step, so that each batch can be weighted by its share of
  // all ranks' targets. Called only where target_name() is not empty.
  virtual at::Tensor count_targets(const Batch& /*batch*/) const { return {}; }

  // Whether the model brings its own backward pass. Training then calls forward_backward(), where
  // it else calls forward() and lets autograd make the gradients of the loss.
  virtual bool has_backward() const { return false; }

  // The outputs of `batch`, and the gradients of `weight` (float32 scalar on the model's device)
  // times its loss. Called only with has_backward().
  virtual StepOutputs forward_backward(const Batch& /*batch*/, const at::Tensor& /*weight*/) {
    return {};
  }

  // Throws Config when the model cannot be used like that.
  virtual void verify(const ModelUse& /*use*/) const {}
};

using ModelRegistry = Registry<Model>;
ModelRegistry& model_registry();

}  // namespace lockstep

// Once per model, at namespace scope of its file. `type`: a Model with a Config and a constructor
// from it.
#define REGISTER_MODEL(name, type, help)                                                           \
  static const ::lockstep::Registration<type> registration_of_##type(::lockstep::model_registry(), \
                                                                     name, help)
