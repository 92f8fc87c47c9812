// Dropout that changes over the steps of a run (train.dropout), e.g. only at its beginning (Liu et al.,
// "Dropout Reduces Underfitting", 2023). A function of the step, so it has no state to save.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_fields.h"
#include "lockstep/hook.h"
#include "lockstep/model.h"

namespace lockstep::trainer {

enum class DropoutChange { Linear, Cosine };
constexpr auto choices(DropoutChange) { return std::array{"linear", "cosine"}; }

struct DropoutConfig {
  std::optional<DropoutChange> schedule;  // nullopt: off
  double start = 0, end = 1;
  int64_t after = 0, steps = 0;
};

template <class V>
void fields(V& v, DropoutConfig& c) {
  v("schedule", c.schedule,
    "how a factor of the model's dropout probabilities changes from start to end (empty: they are "
    "constant)");
  v("start", c.start, "the factor before the change", at_least(0), at_most(1),
    needs("train.dropout.schedule"));
  v("end", c.end, "the factor after the change", at_least(0), at_most(1),
    needs("train.dropout.schedule"));
  v("after", c.after, "steps before the change", at_least(0), needs("train.dropout.schedule"));
  v("steps", c.steps, "steps of the change; 0: at once", at_least(0),
    needs("train.dropout.schedule"));
}

// Before each step, sets the probability of each dropout module of a model (torch::nn::Dropout,
// Dropout2d, Dropout3d, AlphaDropout, FeatureAlphaDropout) to its own one times a factor.
//
// Thread: the training thread.
class DropoutSchedule final : public Hook {
 public:
  // Returns null if it is off. `model`: outlives this; with its own probabilities. `title`: of the
  // model, for messages. Throws Config if the probabilities of the model cannot change.
  static std::shared_ptr<DropoutSchedule> create(const DropoutConfig& config, Model& model,
                                                 const std::string& title, bool cuda_graph);

  void before_step(HookContext& run) override;

  // Of step `step` (0-based).
  double factor(int64_t step) const;

 private:
  struct Layer {
    double probability;  // its own
    std::function<void(double)> set;
  };
  explicit DropoutSchedule(const DropoutConfig& config) : config_(config) {}

  DropoutConfig config_;
  std::vector<Layer> layers_;
};

}  // namespace lockstep::trainer
