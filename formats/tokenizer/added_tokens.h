// The added tokens of a tokenizer.json: recognized in a text before the model sees it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "formats/tokenizer/models/vocabulary.h"
#include "formats/tokenizer/steps/normalizer.h"
#include "formats/tokenizer/text/json_part.h"

namespace lockstep::formats {

struct AddedToken {
  std::string content;
  std::string decoded;  // the spelling for decoders: the normalized content of normalized tokens
  int32_t id = 0;
  bool single_word = false, left_strip = false, right_strip = false;
  bool normalized = true, special = false;
};

// Some texts, found in another one: the leftmost, of those the longest.
class TokenFinder {
 public:
  void add(std::string_view text, size_t number);
  bool empty() const { return nodes_.size() == 1; }

  struct Found {
    size_t begin, end, number;
  };
  // Finds the first text from `from` on; begin is text.size() if there is none.
  Found find(std::string_view text, size_t from) const;

 private:
  struct Node {
    std::vector<std::pair<char, uint32_t>> children;
    size_t number = SIZE_MAX;
  };
  std::vector<Node> nodes_ = std::vector<Node>(1);
  std::vector<bool> begins_ = std::vector<bool>(256);
};

// Thread-safe.
class AddedTokens {
 public:
  // `normalizer` may be null. Tokens that the vocabulary does not have get the ids behind it, as in
  // the tokenizers library. Throws Config.
  AddedTokens(const JsonPart& json, const Vocabulary& vocabulary, const Normalizer* normalizer);

  // Calls token(id) for each token found in `text`, and rest(begin, end) for each part between
  // them, in order. `normalized`: looks for tokens that are found in normalized text, else for the
  // others.
  template <class Token, class Rest>
  void split(std::string_view text, bool normalized, const Token& token, const Rest& rest) const {
    const auto& finder = normalized ? normalized_ : plain_;
    size_t done = 0;
    if (!finder.empty())
      for (size_t from = 0;;) {
        auto found = finder.find(text, from);
        if (found.begin == text.size()) break;
        from = found.end;
        const auto& added = tokens_[found.number];
        if (!extend(added, text, done, found)) continue;
        if (done < found.begin) rest(done, found.begin);
        token(added.id);
        done = found.end;
      }
    if (done < text.size()) rest(done, text.size());
  }

  // Null if there is none.
  const AddedToken* find(const std::string& content) const;
  const AddedToken* find(int32_t id) const;

  // One more than the largest id, or 0.
  size_t end() const { return end_; }

 private:
  void add(AddedToken token, const Normalizer* normalizer);
  // Adds white space next to a token that strips it; false: it is part of a word.
  static bool extend(const AddedToken& token, std::string_view text, size_t done,
                     TokenFinder::Found& found);

  std::vector<AddedToken> tokens_;
  std::unordered_map<std::string, size_t> by_content_;
  std::unordered_map<int32_t, size_t> by_id_;
  TokenFinder plain_, normalized_;
  size_t end_ = 0;
};

}  // namespace lockstep::formats
