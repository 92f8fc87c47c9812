#include "data/tokenize/learn_byte_pairs.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <queue>
#include <set>
#include <unordered_map>

#include "formats/tokenizer/steps/pre_tokenizer.h"
#include "formats/tokenizer/text/byte_alphabet.h"
#include "formats/tokenizer/text/pattern.h"

namespace lockstep::data {
namespace {

using Json = nlohmann::ordered_json;

struct TokenPairHash {
  size_t operator()(const TokenPair& pair) const {
    return std::hash<uint64_t>{}(static_cast<uint64_t>(static_cast<uint32_t>(pair.first)) << 32 |
                                 static_cast<uint32_t>(pair.second));
  }
};

struct CountedWord {
  std::vector<int32_t> tokens;
  int64_t count;
};

// Counts adjacent token pairs, and the words that contain them, while merges are learned.
class PairCounts {
 public:
  explicit PairCounts(std::vector<CountedWord> words) : words_(std::move(words)) {
    for (size_t w = 0; w < words_.size(); ++w)
      for (size_t i = 0; i + 1 < words_[w].tokens.size(); ++i)
        change({words_[w].tokens[i], words_[w].tokens[i + 1]}, words_[w].count, w);
    for (const auto& [pair, count] : counts_) queue_.push({count, pair});
  }

  // Removes and returns the most frequent pair; the count is 0 if there are no pairs.
  std::pair<int64_t, TokenPair> take() {
    while (!queue_.empty()) {
      const auto top = queue_.top();
      queue_.pop();
      const auto now = counts_[top.pair];
      if (top.count == now) return {top.count, top.pair};
      if (now > 0) queue_.push({now, top.pair});
    }
    return {0, {}};
  }

  void merge(const TokenPair& pair, int32_t result) {
    std::set<TokenPair> grown;
    const auto places = std::move(places_[pair]);
    for (const auto w : places) merge_in(w, pair, result, grown);
    for (const auto& one : grown)
      if (counts_[one] > 0) queue_.push({counts_[one], one});
  }

 private:
  struct Candidate {
    int64_t count;
    TokenPair pair;
    // Order of the queue: higher count first, then lower token ids.
    bool operator<(const Candidate& other) const {
      return count != other.count ? count < other.count : pair > other.pair;
    }
  };

  void change(const TokenPair& pair, int64_t by, size_t word) {
    counts_[pair] += by;
    if (by > 0) places_[pair].insert(word);
  }

  void merge_in(size_t w, const TokenPair& pair, int32_t result, std::set<TokenPair>& grown) {
    auto& tokens = words_[w].tokens;
    const auto count = words_[w].count;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      if (tokens[i] != pair.first || tokens[i + 1] != pair.second) continue;
      if (i > 0) {
        change({tokens[i - 1], pair.first}, -count, w);
        change({tokens[i - 1], result}, count, w);
        grown.insert({tokens[i - 1], result});
      }
      if (i + 2 < tokens.size()) {
        change({pair.second, tokens[i + 2]}, -count, w);
        change({result, tokens[i + 2]}, count, w);
        grown.insert({result, tokens[i + 2]});
      }
      tokens[i] = result;
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  std::vector<CountedWord> words_;
  std::unordered_map<TokenPair, int64_t, TokenPairHash> counts_;
  std::unordered_map<TokenPair, std::set<size_t>, TokenPairHash> places_;
  std::priority_queue<Candidate> queue_;
};

}  // namespace

void count_words(std::string_view text, std::map<std::string, int64_t>& words) {
  static const auto pattern = formats::Pattern::regex(formats::kGpt2Pattern);
  pattern.parts(text, [&](size_t begin, size_t end, bool) {
    ++words[std::string(text.substr(begin, end - begin))];
  });
}

LearnedPairs learn_byte_pairs(const std::map<std::string, int64_t>& words, size_t size,
                              int64_t least, const std::vector<std::string>& special) {
  LearnedPairs pairs;
  std::unordered_map<std::string, int32_t> numbers;
  const auto add_token = [&](const std::string& token) {
    const auto [at, is_new] = numbers.emplace(token, static_cast<int32_t>(pairs.tokens.size()));
    if (is_new) pairs.tokens.push_back(token);
    return at->second;
  };
  for (const auto& token : special) add_token(token);
  pairs.special = pairs.tokens.size();
  std::vector<std::pair<char32_t, char>> bytes;
  for (int byte = 0; byte < 256; ++byte)
    bytes.emplace_back(formats::byte_alphabet()[static_cast<size_t>(byte)],
                       static_cast<char>(byte));
  std::ranges::sort(bytes, {}, [](const auto& byte) { return byte.first; });
  for (const auto& [point, byte] : bytes) add_token(std::string(1, byte));

  std::vector<CountedWord> counted;
  for (const auto& [word, count] : words) {
    CountedWord one{.tokens = {}, .count = count};
    for (const auto byte : word) one.tokens.push_back(numbers.at(std::string(1, byte)));
    counted.push_back(std::move(one));
  }
  PairCounts counts(std::move(counted));
  while (pairs.tokens.size() < size) {
    const auto [count, pair] = counts.take();
    if (count < std::max<int64_t>(least, 1)) break;
    const auto result = add_token(pairs.tokens[static_cast<size_t>(pair.first)] +
                                  pairs.tokens[static_cast<size_t>(pair.second)]);
    pairs.merges.push_back(pair);
    counts.merge(pair, result);
  }
  return pairs;
}

std::string tokenizer_json(const LearnedPairs& pairs) {
  const auto name_of_token = [&](int32_t number) {
    const auto& bytes = pairs.tokens[static_cast<size_t>(number)];
    return static_cast<size_t>(number) < pairs.special ? bytes : formats::to_byte_alphabet(bytes);
  };
  // Not by key, which would look for each one among all others.
  Json::object_t vocabulary;
  for (size_t i = 0; i < pairs.tokens.size(); ++i)
    vocabulary.emplace_back(name_of_token(static_cast<int32_t>(i)), i);
  auto merges = Json::array();
  for (const auto& [first, second] : pairs.merges)
    merges.push_back({name_of_token(first), name_of_token(second)});
  auto added = Json::array();
  for (size_t number = 0; number < pairs.special; ++number)
    added.push_back({{"id", number},
                     {"content", pairs.tokens[number]},
                     {"single_word", false},
                     {"lstrip", false},
                     {"rstrip", false},
                     {"normalized", false},
                     {"special", true}});
  const Json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const Json root = {{"version", "1.0"},
                     {"truncation", nullptr},
                     {"padding", nullptr},
                     {"added_tokens", added},
                     {"normalizer", nullptr},
                     {"pre_tokenizer", byte_level},
                     {"post_processor", nullptr},
                     {"decoder", byte_level},
                     {"model",
                      {{"type", "BPE"},
                       {"dropout", nullptr},
                       {"unk_token", nullptr},
                       {"continuing_subword_prefix", nullptr},
                       {"end_of_word_suffix", nullptr},
                       {"fuse_unk", false},
                       {"byte_fallback", false},
                       {"ignore_merges", false},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return root.dump(1) + "\n";
}

}  // namespace lockstep::data
