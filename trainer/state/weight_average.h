// The exponential moving average of a model's weights (train.ema): what is evaluated in the place
// of the weights that are trained. Source: torch.optim.swa_utils (torch 2.11),
// AveragedModel(use_buffers=True) with get_ema_multi_avg_fn, and the same bits for all that is not
// an integer.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/hook.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"

namespace lockstep::trainer {

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
  v("every", c.every, "optimizer steps from one update to the next", at_least(1),
    needs("train.ema.decay"));
  v("warmup", c.warmup, "begin with a smaller decay: (1 + n) / (10 + n) after n updates",
    needs("train.ema.decay"));
}

// Parameters, and buffers such as BatchNorm's, are averaged, on their device; buffers of integers
// are the model's own. The first update takes the weights as they are. No communication: ranks have
// the same parameters; buffers are averages of each rank's own, of which rank 0's count.
//
// Thread: the training thread.
class WeightAverage final : public Hook {
 public:
  // `model` outlives this, and its tensors stay where they are. Needs as much memory as the model.
  WeightAverage(const EmaConfig& config, const Model& model);

  // Updates, if that is due. One foreach operation per type of number.
  void after_step(HookContext& run) override;

  // Evaluations are of the average, where there is one yet.
  void before_evaluation(HookContext&) override { exchange(); }
  void after_evaluation(HookContext&, const EvaluationResult&) override { exchange(); }

  // Updates so far. Without any, the average is the model as it is.
  int64_t num_updates() const { return num_updates_; }

  // The average under the names and in the order of the model's tensors: the live ones.
  NamedTensors tensors() const;

  // After num_updates() updates; the average itself was filled by way of tensors().
  void restore(int64_t num_updates) { num_updates_ = num_updates; }

 private:
  struct SameType {
    std::vector<at::Tensor> average, model;
  };
  double decay_now() const;
  void exchange();  // of average and weights; exact

  EmaConfig config_;
  NamedTensors model_;                // parameters, then buffers
  std::vector<at::Tensor> averages_;  // of each of them
  std::vector<SameType> averaged_;    // those that are not integers
  SameType copied_;                   // the others
  int64_t num_updates_ = 0;
};

}  // namespace lockstep::trainer
