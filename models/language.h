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

// On a GPU, products of 16-bit numbers are several times slower if the rows of the result, [N, V], do
// not begin at multiples of 16 bytes. Returns of which number V should be a multiple for the weight
// [V, D] of the last layer: 1 for float32 and on CPUs.
int64_t vocabulary_multiple(const at::Tensor& weight);

// `weight` [V, D] with rows of zeros up to a multiple of `multiple`.
at::Tensor padded_vocabulary(const at::Tensor& weight, int64_t multiple);

// Sets the logits [..., V + padding] of added rows to -infinity, which removes them from losses and
// gradients.
void hide_padding(const at::Tensor& logits, int64_t vocab_size);

struct LanguageLoss {
  int64_t vocab_size = 0;      // if the logits have padding; 0: all of their columns
  bool with_accuracy = false;  // also count the targets that are predicted correctly
  // Factor of the mean squared log of the softmax's normalizer (PaLM, 2022), which keeps logits
  // small; part of the loss in training only.
  double z_loss = 0;
};

// Computes the outputs for `logits` [B, T, V or more] of `batch`. If the batch has a field "targets"
// (int64 [B, T]), the loss is the mean cross-entropy over the targets that are not ignored (0 if there are
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
