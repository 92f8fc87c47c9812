// Beam search: the texts that are most likely as a whole, approximately. Equals transformers'
// generate() with num_beams, length_penalty, early_stopping (false or true), repetition_penalty and
// stop_strings.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "models/language_model.h"

namespace lockstep::trainer {

struct BeamOptions {
  int64_t count = 1;          // texts that are continued at the same time; 1: no beam search
  double length_penalty = 1;  // a text has the score: log-probability / length ^ length_penalty
  // Whether the search ends when `count` texts are complete, instead of when the texts in progress
  // cannot exceed them at their current lengths.
  bool ends_early = false;
  double repetition_penalty = 1;  // of log-probabilities, by models::penalize_repetition()
};

// As LanguageModel::next_logits(), but float32 on the CPU; `tokens` on the CPU.
using NextLogits = std::function<at::Tensor(
    const at::Tensor& tokens, const std::vector<int64_t>& counts, models::KeyValueCache& cache)>;

// Whether a text of these tokens ends with the last one, as with an end token.
using IsStopped = std::function<bool(const std::vector<int64_t>& tokens)>;

// The `count` texts of the best scores, best first, of up to `max_tokens` tokens, with their end
// token if they have one. `prompt`: at least one token; it and the texts fit the model. The model
// has a vocabulary of at least `count`. `is_stopped`: null: never.
std::vector<std::vector<int64_t>> best_texts(const std::vector<int64_t>& prompt, int64_t max_tokens,
                                             const std::vector<int64_t>& end_tokens,
                                             const BeamOptions& options,
                                             const NextLogits& next_logits,
                                             const IsStopped& is_stopped);

}  // namespace lockstep::trainer
