// The bytes of the text that a language model predicts, for the metric bits_per_byte.
#pragma once

#include <cstdint>

#include "formats/tokenizer/tokenizer.h"
#include "lockstep/batch.h"

namespace lockstep::data {

// The bytes of text of the "targets" int64 [B, T] of `batch` that are not -100, where `tokens` [B, T]
// precede them. Special tokens have no bytes, and neither has what decoding the first token of a text
// leaves out. Exact for bytes that are not UTF-8, such as those of a character that a sample ends in.
int64_t count_target_bytes(const formats::Tokenizer& tokenizer, const Batch& batch);

// The same, where "targets" [B, T] are at the places of the tokens that they replace (masked tokens).
// A target has the bytes that it adds to the text before it. `padding`: a special token.
int64_t count_masked_bytes(const formats::Tokenizer& tokenizer, const Batch& batch,
                           int64_t padding);

}  // namespace lockstep::data
