#include "data/target_bytes.h"

#include <ATen/ATen.h>

#include <span>
#include <vector>

namespace lockstep::data {
namespace {

constexpr int64_t kNoTargetToken = -100;

// Bytes of the text of tokens[1..]: their text may depend on the first one.
size_t bytes_after_first(const formats::Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  return tokenizer.decode_bytes(tokens).size() - tokenizer.decode_bytes(tokens.first(1)).size();
}

// Consecutive targets are decoded together, with the token that precedes the first of them.
size_t bytes_of_row(const formats::Tokenizer& tokenizer, std::span<const int64_t> tokens,
                    std::span<const int64_t> targets) {
  size_t bytes = 0;
  std::vector<int32_t> text;
  const auto finish = [&] {
    if (!text.empty()) bytes += bytes_after_first(tokenizer, text);
    text.clear();
  };
  for (size_t t = 0; t < targets.size(); ++t) {
    if (targets[t] == kNoTargetToken || (!text.empty() && text.back() != tokens[t])) finish();
    if (targets[t] == kNoTargetToken) continue;
    if (text.empty()) text.push_back(static_cast<int32_t>(tokens[t]));
    text.push_back(static_cast<int32_t>(targets[t]));
  }
  finish();
  return bytes;
}

at::Tensor on_cpu(const at::Tensor& field) {
  return field.to(at::kCPU).flatten(0, -2).contiguous();
}

int64_t bytes_of_rows(const formats::Tokenizer& tokenizer, const at::Tensor& tokens,
                      const at::Tensor& targets) {
  const auto length = static_cast<size_t>(tokens.size(1));
  size_t bytes = 0;
  for (int64_t row = 0; row < tokens.size(0); ++row) {
    const auto row_of = [&](const at::Tensor& field) {
      return std::span(field.const_data_ptr<int64_t>() + row * tokens.size(1), length);
    };
    bytes += bytes_of_row(tokenizer, row_of(tokens), row_of(targets));
  }
  return static_cast<int64_t>(bytes);
}

}  // namespace

int64_t count_target_bytes(const formats::Tokenizer& tokenizer, const Batch& batch) {
  return bytes_of_rows(tokenizer, on_cpu(batch.at("tokens")), on_cpu(batch.at("targets")));
}

int64_t count_masked_bytes(const formats::Tokenizer& tokenizer, const Batch& batch,
                           int64_t padding) {
  const auto targets = on_cpu(batch.at("targets"));
  const auto original = at::where(targets.eq(kNoTargetToken), on_cpu(batch.at("tokens")), targets);
  const auto first = at::full({original.size(0), 1}, padding, at::kLong);
  const auto before = at::cat({first, original.narrow(1, 0, original.size(1) - 1)}, 1);
  return bytes_of_rows(tokenizer, before, targets);
}

}  // namespace lockstep::data
