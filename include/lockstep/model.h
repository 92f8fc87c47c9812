// The interface of models: a torch::nn::Module that maps a batch to a loss and predictions.
// Parameter names match those of the same module in Python, so that weights can be exchanged.
//
// Example:
//   struct LineConfig {
//     int64_t inputs = 1;
//   };
//   template <class V>
//   void fields(V& v, LineConfig& c) {
//     v("inputs", c.inputs, "features of a sample", lockstep::at_least(1));
//   }
//
//   class Line final : public lockstep::Model {
//    public:
//     using Config = LineConfig;
//     explicit Line(const Config& config)
//         : layer_(register_module("layer", torch::nn::Linear(config.inputs, 1))) {}
//     lockstep::Outputs forward(const lockstep::Batch& batch) override {
//       const auto y = layer_->forward(batch.at("x")).squeeze(1);
//       return {.loss = at::mse_loss(y, batch.at("y")), .count = batch.size(), .predictions = y};
//     }
//
//    private:
//     torch::nn::Linear layer_;
//   };
//   REGISTER_MODEL("line", Line, "linear regression");
#pragma once

#include <ATen/ops/linear.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/linear.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lockstep/batch.h"
#include "lockstep/registry.h"

namespace lockstep {

// The result of a forward pass.
struct Outputs {
  at::Tensor loss;         // scalar, a mean over the batch; defined when the batch has targets
  int64_t count = 0;       // samples of the batch
  at::Tensor targets;      // count_targets(), for models with a target_name()
  at::Tensor predictions;  // raw outputs, e.g. logits [B, K]
  // Metrics, as sums over the samples (or targets) of the loss: scalars on the model's device. The
  // trainer divides them by the count, e.g. accuracy is {"accuracy", number correct}.
  std::map<std::string, at::Tensor> sums;
};

// A segment of a backward pass; returns the gradients of some parameters.
using GradientSegment = std::function<std::vector<at::Tensor>()>;

// The result of a forward and a backward pass.
struct StepOutputs {
  Outputs outputs;
  // Of the trainable parameters, in parameter order, not referenced elsewhere. If the backward pass
  // is segmented, only those of the last parameters.
  std::vector<at::Tensor> gradients;
  // Each returns the gradients of the parameters that precede those of the previous segment. Called
  // once each, in this order, before the model is used again.
  std::vector<GradientSegment> remaining_segments;
};

// How a run will use a model; known before the ranks connect.
struct ModelUse {
  std::string device;                     // "cpu" or "cuda"
  std::function<std::string()> gpu = {};  // the GPU architecture, e.g. "sm_90"
  // Samples per rank and step, and in the last step of an epoch; 0: no training.
  int64_t batch_size = 0, last_batch_size = 0;
  int64_t eval_batch_size = 0;    // the largest; 0: no evaluation
  bool is_uneven = false;         // some ranks have one sample more in some batches
  bool may_skip_samples = false;  // samples that cannot be loaded are missing from batches
  int64_t vocabulary = 0;         // tokens of the data's tokenizer; 0: unknown
  // Reads the first batch of the training set and, if there is one, of the evaluation set.
  std::function<std::vector<Batch>()> first_samples = {};
};

// A part of a model, e.g. a layer of a transformer, that saves memory: it can be computed twice
// (train.recompute), and its weights can be on this rank only while they are used
// (distributed.shard: full). Its forward() calls run(), once per forward pass of the model.
//
// Example:
//   struct Layer final : lockstep::Block {
//     at::Tensor forward(const at::Tensor& x) {
//       return run(x, [this](const at::Tensor& input) { return linear->forward(input).relu() + input; });
//     }
//     torch::nn::Linear linear{register_module("linear", torch::nn::Linear(8, 8))};
//   };
class Block : public torch::nn::Module {
 public:
  using Forward = std::function<at::Tensor(const at::Tensor& x)>;

  // Whether run() discards activations in training and recomputes them in the backward pass.
  void set_recomputes(bool recomputes) { recomputes_ = recomputes; }
  bool recomputes() const { return recomputes_; }

  // Notified around forward(). `hold`: of models with has_backward(), before each part of a pass,
  // which uses the weights of the blocks `now`, and the part after it of `next`.
  class Observer {
   public:
    virtual ~Observer() = default;
    virtual void before_forward(Block& block) = 0;
    virtual void after_forward(Block& block, const at::Tensor& output) = 0;
    virtual void hold(const std::vector<Block*>& now, const std::vector<Block*>& next) = 0;
  };
  void set_observer(Observer* observer) { observer_ = observer; }  // null: none; outlives run()
  Observer* observer() const { return observer_; }

 protected:
  // Returns forward(x). Of the tensors that require gradients, it may use only `x` and this block's
  // parameters. May call it again in the backward pass, with the same random numbers and autocast
  // settings; it must return the same result, and buffers are updated only once. `forward` must be
  // copyable and valid until then.
  at::Tensor run(const at::Tensor& x, const Forward& forward);

 private:
  at::Tensor run_once_or_twice(const at::Tensor& x, const Forward& forward);

  bool recomputes_ = false;
  Observer* observer_ = nullptr;
};

struct ComputedWeight {
  std::string from;  // the name of another weight
  std::function<at::Tensor(const at::Tensor& from)> compute;
};

struct InitialWeights {
  std::filesystem::path file;       // safetensors, or the index of several; empty: none
  std::vector<std::string> except;  // modules and weights that are not in it
  // A base model: checkpoints refer to it for those of its parameters that are not trained.
  bool is_base = false;
  // A second safetensors file, loaded after the first one, and for each of its tensors the name in
  // the model and in the file.
  std::filesystem::path adapter = {};
  std::map<std::string, std::string> adapter_names = {};
  std::map<std::string, ComputedWeight> computed = {};  // those that are in none of the files
  // The name in the file of each other weight; the file may have more. Empty: equal names.
  std::map<std::string, std::string> names = {};
  // It may also have `unused` tensors, by name or the last parts of it, and `copies` of tied weights.
  std::vector<std::string> unused = {};
  std::map<std::string, std::string> copies = {};  // name of the tensor that it must equal
};

// Files in the directory of a checkpoint, next to those of the trainer.
struct ExportedFiles {
  std::vector<std::filesystem::path> copies;  // e.g. of a configuration and a tokenizer
  std::map<std::string, std::string> texts;   // file name, content
  // Safetensors files: file name, then the name of each tensor in the model and in the file.
  std::map<std::string, std::map<std::string, std::string>> tensors;
};

class Model : public torch::nn::Module {
 public:
  // Respects the train()/eval() mode. Throws Config when the batch does not match the model. A tensor that
  // it keeps for later calls is made under c10::InferenceMode(false): evaluations are in inference mode.
  virtual Outputs forward(const Batch& batch) = 0;

  // The unit that the loss averages over, in plural, e.g. "tokens", if batches can contain
  // different numbers of it. Empty: samples.
  virtual std::string target_name() const { return {}; }

  // The number of targets in `batch`, an int64 scalar on its device; with 0 targets the loss is 0.
  // Called before the forward passes of a step, so that each batch is weighted by its share of the
  // targets of all ranks. Called only if target_name() is not empty.
  virtual at::Tensor count_targets(const Batch& /*batch*/) const { return {}; }

  // Whether the model implements its backward pass. Training then calls forward_backward() instead
  // of forward() and autograd.
  virtual bool has_backward() const { return false; }
  virtual at::ScalarType compute_type() const { return at::kFloat; }  // of its products; train/mfu

  // Returns the outputs for `batch` and the gradients of `weight` (a float32 scalar on the model's
  // device) times the loss. Called only if has_backward().
  virtual StepOutputs forward_backward(const Batch& /*batch*/, const at::Tensor& /*weight*/) {
    return {};
  }

  // The file with the weights of a new run, unless train.init_from names another.
  virtual InitialWeights initial_weights() const { return {}; }

  // Notes for the user about a new run, one line each.
  virtual std::vector<std::string> warnings() const { return {}; }

  // What checkpoints contain for other programs.
  virtual ExportedFiles exported_files() const { return {}; }

  // One sample with the fields that training reads, as large as the model's configuration allows, of
  // any valid values: for `lockstep plan` where the data are not. No fields: unknown.
  virtual Batch example_sample() const { return {}; }

  // Throws Config if the model cannot be used this way. Called on all ranks before they connect.
  virtual void verify(const ModelUse& /*use*/) const {}
};

// torch::nn::Linear with the forward pass of Python's Linear: at::linear. LibTorch's version calls
// addmm, which under autocast casts bias and weight in a different order. Gradients then become
// ready in a different order, buckets differ, and on three or more ranks sums differ in the last
// bits.
struct Linear final : torch::nn::LinearImpl {
  Linear(int64_t in, int64_t out) : torch::nn::LinearImpl(in, out) {}

  // x [..., in] -> [..., out]
  at::Tensor forward(const at::Tensor& x) { return at::linear(x, weight, bias); }
};

using ModelRegistry = Registry<Model>;
ModelRegistry& model_registry();

}  // namespace lockstep

// Registers a model. Use at namespace scope. `type`: a Model with a member type Config and a constructor from it.
#define REGISTER_MODEL(name, type, help)                                                           \
  static const ::lockstep::Registration<type> registration_of_##type(::lockstep::model_registry(), \
                                                                     name, help)
