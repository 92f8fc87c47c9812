#include "formats/tokenizer/models/vocabulary.h"

#include <fmt/format.h>

#include "core/printable.h"

namespace lockstep::formats {

Vocabulary Vocabulary::of_map(const JsonPart& json) {
  const auto& map = json.value();
  if (!map.is_object()) throw json.refused("it is not a map of tokens to ids");
  Vocabulary vocabulary;
  vocabulary.ids_.reserve(map.size());
  vocabulary.size_ = map.size();
  for (const auto& [token, value] : map.items()) {
    if (!value.is_number_unsigned() || value.get<uint64_t>() >= kMaxTokens)
      throw json.refused(
          fmt::format("the id of '{}' is not a number below {}", printable(token), kMaxTokens));
    const auto at = value.get<size_t>();
    if (at >= vocabulary.tokens_.size()) {
      // Bounds the memory: a vocabulary of three tokens must not allocate millions of entries.
      if (at > 2 * map.size() + 1024) throw json.refused("its ids have large gaps");
      vocabulary.tokens_.resize(at + 1);
      vocabulary.exists_.resize(at + 1);
    }
    if (vocabulary.exists_[at]) throw json.refused(fmt::format("two tokens have the id {}", at));
    vocabulary.tokens_[at] = token;
    vocabulary.exists_[at] = true;
    vocabulary.ids_.emplace(token, static_cast<int32_t>(at));
  }
  return vocabulary;
}

}  // namespace lockstep::formats
