// Direct preference optimization (Rafailov et al., 2023): a language model learns from pairs of
// answers, relative to the log-probabilities of a reference model, the weights it starts with.
#pragma once

#include <optional>

#include "lockstep/config_fields.h"
#include "lockstep/model.h"

namespace lockstep::models {

struct DpoConfig {
  std::optional<double> beta;  // nullopt: off
  double label_smoothing = 0;
};

template <class V>
void fields(V& v, DpoConfig& c) {
  v("beta", c.beta,
    "trains on pairs of answers (dataset preferences) with the loss -log sigmoid(beta * margin), "
    "e.g. 0.1: how strongly the model is kept near its initial weights (empty: off)",
    above(0));
  v("label_smoothing", c.label_smoothing,
    "assumed share of pairs whose answers are in the wrong order", at_least(0), below(0.5),
    needs("dpo.beta"));
}

// The batch of 2 B texts of a batch of B pairs, without targets: "tokens" int64 [2 B, T]. Throws
// Config for a batch of other data.
Batch texts_of_pairs(const Batch& batch);

// Computes the outputs for the logits [2 B, T, V] of texts_of_pairs(batch). Predictions are the
// log-probabilities of the answers, float [B, 2]: chosen, rejected. "reference" float [B, 2] of the
// batch: those of the reference model; 0 if missing. The margin of a pair is how much more likely
// than by the reference the chosen answer is, minus the same of the rejected one, in logarithms.
//
// sums: "accuracy" (pairs with a positive margin), "margin", "chosen_reward" and "rejected_reward",
// the last three times beta.
Outputs preference_outputs(const at::Tensor& logits, const Batch& batch, const DpoConfig& config);

// A model whose batches need a field "reference": the predictions of the initial weights.
class ReferencedModel {
 public:
  virtual ~ReferencedModel() = default;
  virtual bool needs_reference() const = 0;
};

}  // namespace lockstep::models
