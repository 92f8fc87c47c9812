// Shapes: B pairs of the batch, T tokens of a text, V tokens of the vocabulary.
#include "models/preference.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include "lockstep/error.h"
#include "models/classification.h"
#include "models/language.h"

namespace lockstep::models {

Batch texts_of_pairs(const Batch& batch) {
  const auto& tokens = batch.at("tokens");
  const auto& targets = batch.at("targets");
  if (tokens.dim() != 3 || tokens.size(1) != 2 || targets.sizes() != tokens.sizes())
    throw config_error(
        fmt::format("with dpo the model needs pairs of texts: 'tokens' is {}, expected [B, 2, T]; "
                    "use dataset preferences",
                    shape_text(tokens)));
  return {.fields = {{"tokens", tokens.flatten(0, 1)}}, .indices = batch.indices};
}

Outputs preference_outputs(const at::Tensor& logits, const Batch& batch, const DpoConfig& config) {
  const auto& targets_B2T = batch.at("targets");
  verify_tokens("targets", targets_B2T.flatten(0, 1), {logits.size(2), kIgnoredTarget});
  const auto losses = at::cross_entropy_loss(logits.flatten(0, 1), targets_B2T.flatten(), {},
                                             at::Reduction::None, kIgnoredTarget);
  const auto log_p_B2 = -losses.to(at::kFloat).view(targets_B2T.sizes()).sum(2);
  Outputs outputs;
  outputs.count = targets_B2T.size(0);
  outputs.predictions = log_p_B2;
  const auto* reference = batch.find("reference");
  const auto beta = config.beta.value();
  const auto rewards_B2 = beta * (reference ? log_p_B2 - *reference : log_p_B2);
  const auto margins_B = rewards_B2.select(1, 0) - rewards_B2.select(1, 1);
  outputs.loss = (-(1 - config.label_smoothing) * at::log_sigmoid(margins_B) -
                  config.label_smoothing * at::log_sigmoid(-margins_B))
                     .mean();
  const auto rewards = rewards_B2.detach(), margins = margins_B.detach();
  outputs.sums["accuracy"] = margins.gt(0).sum();
  outputs.sums["margin"] = margins.sum();
  outputs.sums["chosen_reward"] = rewards.select(1, 0).sum();
  outputs.sums["rejected_reward"] = rewards.select(1, 1).sum();
  return outputs;
}

}  // namespace lockstep::models
