#include "data/tokenize/byte_pairs.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <queue>
#include <set>

#include "data/tokenize/byte_alphabet.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kMaxKnownWords = 1u << 20;

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

int32_t add_token(BytePairs& pairs, const std::string& token) {
  const auto [at, is_new] = pairs.numbers.emplace(token, static_cast<int32_t>(pairs.tokens.size()));
  if (is_new) pairs.tokens.push_back(token);
  return at->second;
}

}  // namespace

BytePairEncoder::BytePairEncoder(const BytePairs& pairs, bool whole_words)
    : pairs_(pairs), whole_words_(whole_words) {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = pairs.numbers.find(std::string(1, static_cast<char>(byte)));
    if (found == pairs.numbers.end())
      throw config_error(fmt::format("the vocabulary has no token for the byte {:#04x}", byte));
    bytes_.push_back(found->second);
  }
  for (const auto& [first, second] : pairs.merges) {
    const auto result = pairs.numbers.find(pairs.tokens[static_cast<size_t>(first)] +
                                           pairs.tokens[static_cast<size_t>(second)]);
    if (result == pairs.numbers.end())
      throw config_error(
          fmt::format("the result of merge {} is not in the vocabulary", merges_.size() + 1));
    merges_.emplace(TokenPair{first, second},
                    Merge{static_cast<int32_t>(merges_.size()), result->second});
  }
}

void BytePairEncoder::encode(std::string_view word, std::vector<int32_t>& out) {
  const std::string key(word);
  auto known = known_.find(key);
  if (known == known_.end()) {
    if (known_.size() >= kMaxKnownWords) known_.clear();
    known = known_.emplace(key, merge(word)).first;
  }
  out.insert(out.end(), known->second.begin(), known->second.end());
}

std::vector<int32_t> BytePairEncoder::merge(std::string_view word) const {
  if (whole_words_)
    if (const auto whole = pairs_.numbers.find(std::string(word)); whole != pairs_.numbers.end())
      return {whole->second};
  // A linked list of tokens, and a queue of candidate merges: the earliest learned first, then the
  // leftmost.
  const auto size = static_cast<int32_t>(word.size());
  std::vector<int32_t> token(word.size()), next(word.size()), before(word.size());
  using Possible = std::tuple<int32_t, int32_t, TokenPair>;  // rank, position, pair at that time
  std::priority_queue<Possible, std::vector<Possible>, std::greater<>> queue;
  const auto offer = [&](int32_t at) {
    const auto behind = at < 0 ? size : next[static_cast<size_t>(at)];
    if (at < 0 || behind >= size) return;
    const TokenPair pair{token[static_cast<size_t>(at)], token[static_cast<size_t>(behind)]};
    if (const auto found = merges_.find(pair); found != merges_.end())
      queue.push({found->second.rank, at, pair});
  };
  for (int32_t i = 0; i < size; ++i) {
    const auto at = static_cast<size_t>(i);
    token[at] = bytes_[static_cast<uint8_t>(word[at])];
    next[at] = i + 1;
    before[at] = i - 1;
  }
  for (int32_t i = 0; i < size; ++i) offer(i);
  while (!queue.empty()) {
    const auto [rank, place, pair] = queue.top();
    queue.pop();
    const auto at = static_cast<size_t>(place);
    const auto behind = next[at];
    const bool is_there = token[at] == pair.first && behind < size &&
                          token[static_cast<size_t>(behind)] == pair.second;
    if (!is_there) continue;
    token[at] = merges_.at(pair).result;
    token[static_cast<size_t>(behind)] = -1;
    next[at] = next[static_cast<size_t>(behind)];
    if (next[at] < size) before[static_cast<size_t>(next[at])] = place;
    offer(before[at]);
    offer(place);
  }
  std::vector<int32_t> tokens;
  for (int32_t i = 0; i < size; i = next[static_cast<size_t>(i)])
    tokens.push_back(token[static_cast<size_t>(i)]);
  return tokens;
}

BytePairs learn_byte_pairs(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                           const std::vector<std::string>& special) {
  BytePairs pairs;
  for (const auto& token : special) add_token(pairs, token);
  std::vector<std::pair<char32_t, char>> bytes;
  for (int byte = 0; byte < 256; ++byte)
    bytes.emplace_back(byte_alphabet()[static_cast<size_t>(byte)], static_cast<char>(byte));
  std::ranges::sort(bytes, {}, [](const auto& byte) { return byte.first; });
  for (const auto& [point, byte] : bytes) add_token(pairs, std::string(1, byte));

  std::vector<CountedWord> counted;
  for (const auto& [word, count] : words) {
    CountedWord one{.tokens = {}, .count = count};
    for (const auto byte : word) one.tokens.push_back(pairs.numbers.at(std::string(1, byte)));
    counted.push_back(std::move(one));
  }
  PairCounts counts(std::move(counted));
  while (pairs.tokens.size() < size) {
    const auto [count, pair] = counts.take();
    if (count < std::max<int64_t>(least, 1)) break;
    const auto result = add_token(pairs, pairs.tokens[static_cast<size_t>(pair.first)] +
                                             pairs.tokens[static_cast<size_t>(pair.second)]);
    pairs.merges.push_back(pair);
    counts.merge(pair, result);
  }
  return pairs;
}

}  // namespace lockstep::data
