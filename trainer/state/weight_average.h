// The exponential moving average of a model's weights (train.ema): what is evaluated in the place
// of the weights that are trained. Source: torch.optim.swa_utils (torch 2.11),
// AveragedModel(use_buffers=True) with get_ema_multi_avg_fn, and the same bits for all that is not
// an integer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/config/config_fields.h"
#include "models/model.h"
#include "trainer/state/optimizer.h"

namespace lockstep {

struct EmaConfig {
  std::optional<double> decay;  // nothing: off
  int64_t every = 1;
  bool warmup = false;
};

template <class V>
void fields(V& v, EmaConfig& c) {
  v("decay", c.decay,
    "how much of the average stays at an update, e.g. 0.999 (nothing: weights are not averaged)",
    above(0), below(1));
  v("every", c.every, "optimizer steps from one update to the next", at_least(1));
  v("warmup", c.warmup, "begin with a smaller decay: (1 + n) / (10 + n) after n updates");
}

// Parameters, and buffers such as BatchNorm's, are averaged, on their device; buffers of integers
// are the model's own. The first update takes the weights as they are. No communication: ranks have
// the same parameters; buffers are averages of each rank's own, of which rank 0's count.
//
// Thread: the training thread.
class WeightAverage {
 public:
  // `model` outlives this, and its tensors stay where they are. Needs as much memory as the model.
  WeightAverage(const EmaConfig& config, const Model& model);

  // After optimizer step `step`: updates, if that is due. One foreach operation per type of number.
  void after_step(int64_t step);

  // Updates so far. Without any, the average is the model as it is.
  int64_t num_updates() const { return num_updates_; }

  // The average under the names and in the order of the model's tensors: the live ones.
  NamedTensors tensors() const;

  // After num_updates() updates; the average itself was filled by way of tensors().
  void restore(int64_t num_updates) { num_updates_ = num_updates; }

  // Exchanges average and weights, so that the model computes with the average until it is called
  // again. Exact.
  void exchange();

 private:
  struct SameType {
    std::vector<at::Tensor> average, model;
  };
  double decay_now() const;

  EmaConfig config_;
  NamedTensors model_;                // parameters, then buffers
  std::vector<at::Tensor> averages_;  // of each of them
  std::vector<SameType> averaged_;    // those that are not integers
  SameType copied_;                   // the others
  int64_t num_updates_ = 0;
};

// The model computes with the average while this lives; nothing where there is none yet.
class AveragedWeights {
 public:
  explicit AveragedWeights(WeightAverage* average);
  ~AveragedWeights();
  AveragedWeights(const AveragedWeights&) = delete;
  AveragedWeights& operator=(const AveragedWeights&) = delete;

 private:
  WeightAverage* average_;
};

}  // namespace lockstep
