#include "data/tokenize/tokenizer.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/printable.h"
#include "data/tokenize/byte_alphabet.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kMaxTokens = 16'000'000;

// The parts of a tokenizer.json, which may be any JSON.
class TokenizerFile {
 public:
  TokenizerFile(std::string_view text, const std::string& name) : name_(name) {
    root_ = Json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!root_.is_object()) throw refused("it is not a JSON object");
    if (type_of(member(root_, "model")) != "BPE")
      throw refused(fmt::format("its model is '{}': only BPE is supported",
                                printable(type_of(member(root_, "model")))));
    if (!member(root_, "normalizer").is_null())
      throw refused("it has a normalizer: only byte-level BPE without a normalizer is supported");
  }

  Error refused(const std::string& why) const {
    return config_error(fmt::format("{}: not a usable tokenizer.json: {}", name_, why));
  }

  static const Json& member(const Json& map, const char* key) {
    static const Json nothing;
    const auto found = map.is_object() ? map.find(key) : map.end();
    return map.is_object() && found != map.end() ? *found : nothing;
  }

  static bool flag(const Json& map, const char* key, bool otherwise) {
    const auto& value = member(map, key);
    return value.is_boolean() ? value.get<bool>() : otherwise;
  }

  static std::string type_of(const Json& map) {
    const auto& type = member(map, "type");
    return type.is_string() ? type.get<std::string>() : "nothing";
  }

  BytePairs pairs() const {
    const auto& model = member(root_, "model");
    BytePairs pairs;
    const auto& vocabulary = member(model, "vocab");
    if (!vocabulary.is_object()) throw refused("its model has no vocab");
    for (const auto& [token, number] : vocabulary.items()) {
      const auto bytes = from_byte_alphabet(token);
      // A token outside the byte alphabet is a special token.
      if (bytes) place(pairs, *bytes, number);
    }
    const auto& merges = member(model, "merges");
    if (!merges.is_array()) throw refused("its model has no merges");
    for (const auto& merge : merges) pairs.merges.push_back(merge_of(merge, pairs));
    return pairs;
  }

  std::map<std::string, int32_t> special() const {
    std::map<std::string, int32_t> tokens;
    for (const auto& token : member(root_, "added_tokens")) {
      const auto& content = member(token, "content");
      if (!content.is_string() || content.get<std::string>().empty())
        throw refused("an added token has no content");
      tokens[content.get<std::string>()] = number_of(member(token, "id"));
    }
    return tokens;
  }

  // The patterns that split a text, applied in this order.
  std::vector<std::string> patterns(bool& prefix_blank) const {
    std::vector<std::string> patterns;
    bool is_byte_level = false;
    const auto& first = member(root_, "pre_tokenizer");
    const auto parts =
        type_of(first) == "Sequence" ? member(first, "pretokenizers") : Json::array({first});
    for (const auto& part : parts) {
      if (type_of(part) == "ByteLevel") {
        is_byte_level = true;
        prefix_blank = flag(part, "add_prefix_space", true);
        if (flag(part, "use_regex", true)) patterns.emplace_back(kGpt2Pattern);
      } else if (type_of(part) == "Split" && !is_byte_level) {
        const auto& pattern = member(member(part, "pattern"), "Regex");
        if (!pattern.is_string() || member(part, "behavior") != "Isolated" ||
            flag(part, "invert", false))
          throw refused("its Split does not use a regular expression with Isolated behavior");
        patterns.push_back(pattern.get<std::string>());
      } else {
        throw refused(fmt::format("its pre_tokenizer is '{}': supported: Split, then ByteLevel",
                                  printable(type_of(part))));
      }
    }
    if (!is_byte_level) throw refused("its pre_tokenizer is not ByteLevel");
    return patterns;
  }

  bool whole_words() const { return flag(member(root_, "model"), "ignore_merges", false); }

 private:
  int32_t number_of(const Json& json) const {
    if (!json.is_number_unsigned() || json.get<uint64_t>() >= kMaxTokens)
      throw refused("a token id is missing or too large");
    return json.get<int32_t>();
  }

  void place(BytePairs& pairs, const std::string& bytes, const Json& json) const {
    const auto number = number_of(json);
    const auto at = static_cast<size_t>(number);
    if (pairs.tokens.size() <= at) {
      // Bounds the memory: a vocabulary of three tokens must not allocate millions of entries.
      if (at > 2 * member(member(root_, "model"), "vocab").size() + 1024)
        throw refused("its token ids have large gaps");
      pairs.tokens.resize(at + 1);
    }
    if (!pairs.tokens[at].empty() || bytes.empty())
      throw refused(fmt::format("two tokens have the id {}", number));
    pairs.tokens[at] = bytes;
    pairs.numbers[bytes] = number;
  }

  // "a b" or ["a", "b"].
  TokenPair merge_of(const Json& merge, const BytePairs& pairs) const {
    std::string first, second;
    if (merge.is_string()) {
      const auto text = merge.get<std::string>();
      const auto blank = text.find(' ');
      first = text.substr(0, blank);
      second = blank == text.npos ? "" : text.substr(blank + 1);
    } else if (merge.is_array() && merge.size() == 2 && merge[0].is_string() &&
               merge[1].is_string()) {
      first = merge[0].get<std::string>();
      second = merge[1].get<std::string>();
    }
    const auto number = [&](const std::string& token) {
      const auto bytes = from_byte_alphabet(token);
      const auto found = bytes ? pairs.numbers.find(*bytes) : pairs.numbers.end();
      if (found == pairs.numbers.end())
        throw refused(fmt::format("a merge has '{}', which is not a token", printable(token)));
      return found->second;
    };
    return {number(first), number(second)};
  }

  Json root_;
  const std::string& name_;
};

}  // namespace

Tokenizer::Tokenizer(std::string_view json, const std::string& name) : name_(name) {
  const TokenizerFile file(json, name);
  pairs_ = std::make_shared<const BytePairs>(file.pairs());
  special_ = file.special();
  whole_words_ = file.whole_words();
  for (const auto& pattern : file.patterns(prefix_blank_)) splitters_.emplace_back(pattern);
  make_encoder();
}

void Tokenizer::make_encoder() {
  encoder_.emplace(*pairs_, whole_words_);
  for (const auto& [text, token] : special_) special_texts_.emplace(token, text);
}

Tokenizer Tokenizer::learn(const std::map<std::string, int64_t>& words, size_t size, int64_t least,
                           const std::vector<std::string>& special) {
  Tokenizer tokenizer;
  tokenizer.name_ = "the new tokenizer";
  tokenizer.pairs_ =
      std::make_shared<const BytePairs>(learn_byte_pairs(words, size, least, special));
  for (const auto& token : special) tokenizer.special_[token] = tokenizer.pairs_->numbers.at(token);
  tokenizer.splitters_.emplace_back(kGpt2Pattern);
  tokenizer.make_encoder();
  return tokenizer;
}

void Tokenizer::encode(std::string_view text, std::vector<int32_t>& out) {
  while (!text.empty()) {
    // The first special token in the text; the longest one if several begin there.
    size_t first = text.size();
    const std::pair<const std::string, int32_t>* found = nullptr;
    for (const auto& token : special_) {
      const auto at = text.find(token.first);
      const bool longer = found && at == first && token.first.size() > found->first.size();
      if (at == text.npos || !(at < first || longer)) continue;
      first = at;
      found = &token;
    }
    encode_plain(text.substr(0, first), out);
    if (!found) return;
    out.push_back(found->second);
    text.remove_prefix(first + found->first.size());
  }
}

void Tokenizer::encode_plain(std::string_view text, std::vector<int32_t>& out) {
  if (text.empty()) return;
  std::string with_blank;
  if (prefix_blank_ && text.front() != ' ') text = with_blank = ' ' + std::string(text);
  std::vector<std::string_view> pieces = {text};
  for (const auto& splitter : splitters_) {
    std::vector<std::string_view> smaller;
    for (const auto piece : pieces)
      splitter.split(piece, [&](std::string_view word) { smaller.push_back(word); });
    pieces = std::move(smaller);
  }
  for (const auto word : pieces) encoder_->encode(word, out);
}

size_t Tokenizer::vocabulary_size() const {
  auto size = pairs_->tokens.size();
  for (const auto& [token, number] : special_)
    size = std::max(size, static_cast<size_t>(number) + 1);
  return size;
}

std::optional<int32_t> Tokenizer::find(const std::string& token) const {
  if (const auto special = special_.find(token); special != special_.end()) return special->second;
  const auto plain = pairs_->numbers.find(token);
  return plain == pairs_->numbers.end() ? std::nullopt : std::optional(plain->second);
}

std::string Tokenizer::decode(std::span<const int32_t> tokens, bool skip_special) const {
  std::string text;
  for (const auto token : tokens) {
    const auto special = special_texts_.find(token);
    if (special != special_texts_.end())
      text += skip_special ? std::string() : special->second;
    else if (static_cast<size_t>(token) < pairs_->tokens.size())
      text += pairs_->tokens[static_cast<size_t>(token)];
  }
  return text;
}

std::string Tokenizer::to_json() const {
  const auto name_of_token = [&](int32_t number) {
    const auto& bytes = pairs_->tokens[static_cast<size_t>(number)];
    return special_.contains(bytes) ? bytes : to_byte_alphabet(bytes);
  };
  auto vocabulary = Json::object();
  for (size_t i = 0; i < pairs_->tokens.size(); ++i)
    vocabulary[name_of_token(static_cast<int32_t>(i))] = i;
  auto merges = Json::array();
  for (const auto& [first, second] : pairs_->merges)
    merges.push_back({name_of_token(first), name_of_token(second)});
  auto added = Json::array();
  for (const auto& [token, number] : special_)
    added.push_back({{"id", number},
                     {"content", token},
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
                       {"ignore_merges", whole_words_},
                       {"vocab", vocabulary},
                       {"merges", merges}}}};
  return root.dump(1) + "\n";
}

void count_words(std::string_view text, std::map<std::string, int64_t>& words) {
  static const WordSplitter splitter(kGpt2Pattern);
  splitter.split(text, [&](std::string_view word) { ++words[std::string(word)]; });
}

}  // namespace lockstep::data
