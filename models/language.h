// Loss and accuracy of language models.
#pragma once

#include "lockstep/model.h"

namespace lockstep::models {

// A target that the loss ignores, e.g. of a padding token; same as PyTorch's ignore_index.
constexpr int64_t kIgnoredTarget = -100;

// The number of targets in the field "targets" of `batch` that are not kIgnoredTarget.
at::Tensor count_token_targets(const Batch& batch);

// A sample of `tokens` tokens, for Model::example_sample().
Batch example_text(int64_t tokens);

constexpr const char* kZLossHelp =
    "factor of the mean squared log of the softmax's normalizer, which is added to the loss in "
    "training, e.g. 1e-4; 0: none";

struct LanguageLoss {
  bool with_accuracy = false;  // also count the targets that are predicted correctly
  // Factor of the mean squared log of the softmax's normalizer (PaLM, 2022), which keeps logits
  // small; part of the loss in training only.
  double z_loss = 0;
};

// Computes the outputs for `logits` [B, T, V] of `batch`. If the batch has a field "targets" (int64
// [B, T]), the loss is the mean cross-entropy over the targets that are not ignored (0 if there are
// none); with loss.with_accuracy, which costs a pass over the logits, sums["accuracy"] is the number
// of targets that are predicted correctly.
//
// Throws Config: targets that are not int64 [B, T], or, on the CPU, a target outside [0, V).
Outputs language_outputs(const at::Tensor& logits, const Batch& batch, const LanguageLoss& loss);

// Throws Config if `tokens` (the field `name`) is not int64 [B, T], or, on the CPU, if a token is
// neither in [0, vocab_size) nor `ignored`.
struct TokenRange {
  int64_t vocab_size;
  std::optional<int64_t> ignored;
};
void verify_tokens(const std::string& name, const at::Tensor& tokens, const TokenRange& range);

}  // namespace lockstep::models
