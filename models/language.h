// What models of text have in common: the loss and the accuracy of logits over tokens.
#pragma once

#include "lockstep/model.h"

namespace lockstep::models {

// A target that no loss counts, e.g. of a padded token; PyTorch's number for it.
constexpr int64_t kIgnoredTarget = -100;

// How many targets of `batch` count: those in its field "targets" that are not kIgnoredTarget.
at::Tensor count_token_targets(const Batch& batch);

// `logits` [B, T, V] of `batch`. With a field "targets" (int64 [B, T]) the outputs carry
// the mean cross-entropy over the targets that count (0 where none does), and, on request (it costs
// a pass over the logits), sums["accuracy"]: at how many of them the greatest logit is right.
//
// Throws Config: targets that are not int64 [B, T], or, on the CPU, a target outside [0, V).
Outputs language_outputs(const at::Tensor& logits, const Batch& batch, bool with_accuracy);

// Throws Config when `tokens` (a field `name`) is not int64 [B, T], or, on the CPU, when a number
// in it is neither in [0, vocab_size) nor `ignored`.
struct TokenRange {
  int64_t vocab_size;
  std::optional<int64_t> ignored;
};
void verify_tokens(const std::string& name, const at::Tensor& tokens, const TokenRange& range);

}  // namespace lockstep::models
