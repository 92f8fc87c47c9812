// Unigram language model: the tokens whose scores have the greatest sum. Source: Kudo, "Subword
// regularization" (2018), as in SentencePiece.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "formats/tokenizer/models/model.h"

namespace lockstep::formats {

// Finds the tokens that a text begins with.
class PrefixTrie {
 public:
  explicit PrefixTrie(const Vocabulary& vocabulary);

  // Calls use(id, size) for each token that `text` begins with, the shortest first.
  template <class Use>
  void prefixes(std::string_view text, const Use& use) const {
    uint32_t node = 0;
    for (size_t size = 0; size < text.size(); ++size) {
      node = child(node, static_cast<uint8_t>(text[size]));
      if (node == 0) return;
      if (nodes_[node].id >= 0) use(nodes_[node].id, size + 1);
    }
  }

 private:
  struct Node {
    uint32_t edges = 0;  // position of the first one
    uint16_t count = 0;
    int32_t id = -1;
  };
  // 0 if there is none.
  uint32_t child(uint32_t node, uint8_t label) const;

  std::vector<Node> nodes_;
  std::vector<uint8_t> labels_;  // of edges, ascending for each node
  std::vector<uint32_t> targets_;
};

class Unigram : public TokenModel {
 public:
  // Throws Config.
  explicit Unigram(const JsonPart& json);

 private:
  void encode_word(std::string_view word, std::vector<int32_t>& out) const override;
  // Appends the tokens of consecutive characters that are unknown.
  void append_unknown(std::string_view text, std::vector<int32_t>& out) const;

  std::vector<double> scores_;  // by id
  double unknown_score_;
  int32_t unknown_ = -1;
  std::vector<int32_t> bytes_;  // the tokens of the 256 bytes, or -1; empty: not used
  PrefixTrie trie_;
};

// The ids of the tokens "<0x00>" to "<0xFF>"; -1 where there is none.
std::vector<int32_t> byte_tokens(const Vocabulary& vocabulary);

}  // namespace lockstep::formats
