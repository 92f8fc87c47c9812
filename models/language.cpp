// Shapes: B samples of the batch, T tokens of a sample, N = B T, V tokens of the vocabulary.
#include "models/language.h"

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/grad_mode.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "lockstep/error.h"
#include "models/classification.h"

namespace lockstep::models {

at::Tensor count_token_targets(const Batch& batch) {
  return batch.at("targets").ne(kIgnoredTarget).sum();
}

Batch example_text(int64_t tokens) {
  const auto tokens_BT = at::zeros({1, tokens}, at::kLong);
  return {.fields = {{"tokens", tokens_BT}, {"targets", tokens_BT.clone()}},
          .indices = at::zeros({1}, at::kLong)};
}

void verify_tokens(const std::string& name, const at::Tensor& tokens, const TokenRange& range) {
  if (tokens.dim() != 2 || tokens.scalar_type() != at::kLong)
    throw config_error(
        fmt::format("the model needs int64 tokens of equal length: '{}' is {} {}, expected Long "
                    "[B, T]",
                    name, c10::toString(tokens.scalar_type()), shape_text(tokens)));
  if (!tokens.is_cpu()) return;  // would synchronize with the GPU in every step
  const auto plain = tokens.contiguous();
  const auto* begin = plain.const_data_ptr<int64_t>();
  const auto* end = begin + plain.numel();
  const auto* wrong = std::find_if(begin, end, [&](int64_t token) {
    return (token < 0 || token >= range.vocab_size) && token != range.ignored;
  });
  if (wrong == end) return;
  throw config_error(
      fmt::format("'{}' has token {}, but the model has a vocabulary of {}: tokens 0 to {} are "
                  "valid; was the data made with the tokenizer of another model? Models gpt and "
                  "decoder: set model.vocab_size",
                  name, *wrong, range.vocab_size, range.vocab_size - 1));
}

int64_t vocabulary_multiple(const at::Tensor& weight_VD) {
  const bool is_reduced = at::isReducedFloatingType(weight_VD.scalar_type()) ||
                          at::autocast::is_autocast_enabled(weight_VD.device().type());
  return weight_VD.is_cuda() && is_reduced ? 64 : 1;
}

at::Tensor padded_vocabulary(const at::Tensor& weight_VD, int64_t multiple) {
  const auto missing = (multiple - weight_VD.size(0) % multiple) % multiple;
  return missing == 0 ? weight_VD : at::constant_pad_nd(weight_VD, {0, 0, 0, missing});
}

void hide_padding(const at::Tensor& logits, int64_t vocab_size) {
  const auto padding = logits.size(-1) - vocab_size;
  if (padding == 0) return;
  const at::NoGradGuard no_grad;
  logits.narrow(-1, vocab_size, padding).fill_(-std::numeric_limits<double>::infinity());
}

namespace {

// The mean of log(sum exp(logits))^2 over the targets that are not ignored; 0 if there are none.
at::Tensor mean_square_normalizer(const at::Tensor& logits_NV, const at::Tensor& targets_N) {
  const auto counts_N = targets_N.ne(kIgnoredTarget).to(at::kFloat);
  const auto squares_N = at::logsumexp(logits_NV.to(at::kFloat), 1).square();
  return (squares_N * counts_N).sum() / counts_N.sum().clamp_min(1);
}

}  // namespace

Outputs language_outputs(const at::Tensor& logits_BTV, const Batch& batch,
                         const LanguageLoss& loss) {
  Outputs outputs;
  outputs.count = logits_BTV.size(0);
  const auto vocab_size = loss.vocab_size > 0 ? loss.vocab_size : logits_BTV.size(2);
  outputs.predictions =
      vocab_size == logits_BTV.size(2) ? logits_BTV : logits_BTV.narrow(2, 0, vocab_size);
  const auto has_targets = std::any_of(batch.fields.begin(), batch.fields.end(),
                                       [](const auto& field) { return field.first == "targets"; });
  if (!has_targets) return outputs;
  const auto& targets_BT = batch.at("targets");
  verify_tokens("targets", targets_BT, {vocab_size, kIgnoredTarget});
  if (targets_BT.sizes() != logits_BTV.sizes().slice(0, 2))
    throw config_error(
        fmt::format("the model needs one target per token: 'targets' is {}, expected "
                    "[{}, {}]",
                    shape_text(targets_BT), logits_BTV.size(0), logits_BTV.size(1)));
  const auto logits_NV = logits_BTV.flatten(0, 1);
  const auto targets_N = targets_BT.reshape({-1});
  outputs.targets = count_token_targets(batch);
  // Bit-identical to the mean reduction, which would be NaN without targets.
  const auto sum =
      at::cross_entropy_loss(logits_NV, targets_N, {}, at::Reduction::Sum, kIgnoredTarget);
  outputs.loss = sum / outputs.targets.clamp_min(1).to(sum.scalar_type());
  if (loss.z_loss > 0)
    outputs.loss = outputs.loss + loss.z_loss * mean_square_normalizer(logits_NV, targets_N);
  if (loss.with_accuracy)
    outputs.sums["accuracy"] = logits_NV.detach().argmax(1).eq(targets_N).sum();
  return outputs;
}

}  // namespace lockstep::models
