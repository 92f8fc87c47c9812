// The exponential moving average of a model's weights (train.ema), which is evaluated instead of
// the trained weights. Source: torch.optim.swa_utils (torch 2.11), AveragedModel(use_buffers=True)
// with get_ema_multi_avg_fn, with the same bits for all tensors except integer ones.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "distributed/sharding/shard_strategy.h"
#include "lockstep/config_fields.h"
#include "lockstep/hook.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#include "trainer/state/state_stream.h"

namespace lockstep::trainer {

struct EmaConfig {
  std::optional<double> decay;  // nullopt: off
  int64_t every = 1;
  bool warmup = false;
};

template <class V>
void fields(V& v, EmaConfig& c) {
  v("decay", c.decay,
    "decay of the average per update, e.g. 0.999 (empty: weights are not averaged)", above(0),
    below(1));
  v("every", c.every, "optimizer steps between updates", at_least(1), needs("train.ema.decay"));
  v("warmup", c.warmup, "start with a smaller decay: (1 + n) / (10 + n) after n updates",
    needs("train.ema.decay"));
}

// Averages parameters and floating-point buffers (e.g. of BatchNorm) on their device; integer
// buffers are copied. The first update copies the weights. No communication: parameters are the
// same on all ranks; each rank averages its own buffers, and those of rank 0 are used. If ranks share
// or shard the parameters (distributed.shard: full), each rank averages its slices.
//
// Thread: the training thread.
class WeightAverage final : public Hook {
 public:
  // `model` outlives this; its tensors must keep their addresses. Uses as much memory as the model.
  // `sharding`: of the model, outlives this; null: none. `shared`: with parameters that all ranks
  // share, memory for the averages of the trainable ones (shared_averages()).
  WeightAverage(const EmaConfig& config, const Model& model,
                const distributed::Sharding* sharding = nullptr,
                std::vector<at::Tensor> shared = {});

  // Updates the average if it is due. One foreach operation per dtype.
  void after_step(HookContext& run) override;

  // Evaluations use the average, if it exists yet. Collective if ranks share the parameters.
  void before_evaluation(HookContext&) override { exchange(); }
  void after_evaluation(HookContext&, const EvaluationResult&) override { exchange(); }

  // The model gets the trained weights again, if an evaluation was interrupted.
  void use_training_weights() {
    if (is_exchanged_) exchange();
  }

  // Updates so far; with 0, the average is the model itself.
  int64_t num_updates() const { return num_updates_; }

  // The live tensors of the average, with the names and in the order of the model's tensors. Those of
  // divided weights are on the meta device.
  NamedTensors tensors() const;

  // The average of divided weights, in the list "ema".
  std::vector<DividedState> divided_state() const { return divided_; }

  // Sets the number of updates; the caller has filled tensors().
  void restore(int64_t num_updates) { num_updates_ = num_updates; }

 private:
  struct SameType {
    std::vector<at::Tensor> average, model;
  };
  void add(const at::Tensor& average, const at::Tensor& tensor);
  at::Tensor& average_of(const std::string& name);
  void share_parameters(const Model& model, std::vector<at::Tensor> averages);
  void divide_parameters();
  double decay_now() const;
  void exchange();  // swaps average and weights; exact

  EmaConfig config_;
  const distributed::Sharding* sharding_;
  distributed::FlatParameters* shared_ = nullptr;  // of parameters that all ranks share
  std::vector<DividedState> divided_;
  NamedTensors model_;                // parameters, then buffers
  std::vector<at::Tensor> averages_;  // of each of them
  // What this rank updates: whole tensors, or its slices of shared and divided ones.
  std::vector<SameType> averaged_;  // those that are not integers
  SameType copied_;                 // the others
  int64_t num_updates_ = 0;
  bool is_exchanged_ = false;  // the model has the average
};

// Collective. Memory for the averages of parameters that all ranks share; empty if they do not.
std::vector<at::Tensor> shared_averages(const distributed::Sharding* sharding);

}  // namespace lockstep::trainer
