// The tokens of a model and their ids.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

constexpr int64_t kMaxTokens = 16'000'000;

class Vocabulary {
 public:
  // {"token": id, ...}. Throws Config: not such a map, two tokens with one id, or ids with large
  // gaps.
  static Vocabulary of_map(const JsonPart& json);

  // Adds a token with the next id. A spelling that exists belongs to the new id.
  void add(const std::string& token) {
    ids_[token] = static_cast<int32_t>(tokens_.size());
    tokens_.push_back(token);
    exists_.push_back(true);
    ++size_;
  }

  // -1 if there is no such token.
  int32_t find(std::string_view token) const {
    const auto found = ids_.find(token);
    return found == ids_.end() ? -1 : found->second;
  }
  // The spelling of a token; null if there is no such id.
  const std::string* find(int32_t id) const {
    const auto at = static_cast<size_t>(id);
    return id >= 0 && at < tokens_.size() && exists_[at] ? &tokens_[at] : nullptr;
  }

  // The number of tokens, and one more than the largest id.
  size_t size() const { return size_; }
  size_t end() const { return tokens_.size(); }

 private:
  struct Hash {
    using is_transparent = void;
    size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
  };

  std::unordered_map<std::string, int32_t, Hash, std::equal_to<>> ids_;
  std::vector<std::string> tokens_;  // by id
  std::vector<bool> exists_;         // by id; false in gaps
  size_t size_ = 0;
};

}  // namespace lockstep::formats
