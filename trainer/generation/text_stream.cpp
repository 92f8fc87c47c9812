#include "trainer/generation/text_stream.h"

#include <algorithm>
#include <string_view>

#include "core/printable.h"

namespace lockstep::trainer {
namespace {

constexpr size_t kMaxCharacterBytes = 4;
constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

// A tokenizer decodes a character at the end that is incomplete as U+FFFD.
std::string_view without_incomplete(std::string_view text) {
  while (text.ends_with(kReplacement)) text.remove_suffix(kReplacement.size());
  return text;
}

}  // namespace

TextStream::TextStream(const TextCodec* codec, const std::vector<int64_t>& prompt,
                       const std::vector<std::string>& stops)
    : codec_(codec), stops_(stops), tokens_(prompt) {
  if (codec_) prompt_bytes_ = without_incomplete(codec_->decode(tokens_)).size();
}

bool TextStream::add(std::span<const int64_t> tokens) {
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
  if (!codec_) return false;
  // With the prompt, since some tokenizers decode the first token differently.
  const auto all = codec_->decode(tokens_);
  text_ = all.substr(std::min(prompt_bytes_, all.size()));
  auto first = text_.npos;
  for (const auto& stop : stops_) first = std::min(first, text_.find(stop));
  if (first == text_.npos) return false;
  text_.resize(first);
  return true;
}

std::string TextStream::text() const { return valid_utf8(text_); }

size_t TextStream::settled() const {
  auto end = text_.size();
  for (const auto& stop : stops_)
    for (auto length = std::min(stop.size() - 1, text_.size()); length > 0; --length)
      if (text_.ends_with(std::string_view(stop).substr(0, length))) {
        end = std::min(end, text_.size() - length);
        break;
      }
  end = without_incomplete(std::string_view(text_).substr(0, end)).size();
  const auto from = std::min(taken_, end);
  const auto invalid = find_invalid_utf8(std::string_view(text_).substr(from, end - from));
  const bool is_incomplete = invalid != text_.npos && from + invalid + kMaxCharacterBytes > end;
  return is_incomplete ? from + invalid : end;
}

std::string TextStream::take(bool is_last) {
  const auto end = is_last ? text_.size() : settled();
  if (end <= taken_) return "";
  const auto part = valid_utf8(std::string_view(text_).substr(taken_, end - taken_));
  taken_ = end;
  return part;
}

std::string valid_utf8(std::string_view text) {
  std::string valid;
  while (true) {
    const auto invalid = find_invalid_utf8(text);
    valid += text.substr(0, invalid);
    if (invalid == text.npos) return valid;
    valid += kReplacement;
    text.remove_prefix(invalid + 1);
  }
}

}  // namespace lockstep::trainer
