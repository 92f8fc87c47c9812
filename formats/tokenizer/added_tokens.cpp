#include "formats/tokenizer/added_tokens.h"

#include <algorithm>

#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxAddedToken = 4096;  // bytes

AddedToken read_added_token(const JsonPart& json) {
  AddedToken token;
  token.content = json.text("content");
  if (token.content.size() > kMaxAddedToken) throw json.refused("its content is too long");
  json.number("id", 0, kMaxTokens - 1);
  token.single_word = json.flag("single_word", false);
  token.left_strip = json.flag("lstrip", false);
  token.right_strip = json.flag("rstrip", false);
  token.special = json.flag("special", false);
  token.normalized = json.flag("normalized", !token.special);
  return token;
}

}  // namespace

void TokenFinder::add(std::string_view text, size_t number) {
  if (text.empty()) return;
  uint32_t node = 0;
  begins_[static_cast<uint8_t>(text[0])] = true;
  for (const auto byte : text) {
    const auto found =
        std::ranges::find(nodes_[node].children, byte, &std::pair<char, uint32_t>::first);
    if (found != nodes_[node].children.end()) {
      node = found->second;
      continue;
    }
    const auto child = static_cast<uint32_t>(nodes_.size());
    nodes_[node].children.emplace_back(byte, child);
    nodes_.emplace_back();
    node = child;
  }
  if (nodes_[node].number == SIZE_MAX) nodes_[node].number = number;
}

TokenFinder::Found TokenFinder::find(std::string_view text, size_t from) const {
  for (auto begin = from; begin < text.size(); ++begin) {
    if (!begins_[static_cast<uint8_t>(text[begin])]) continue;
    Found found{begin, begin, SIZE_MAX};
    uint32_t node = 0;
    for (auto at = begin; at < text.size(); ++at) {
      const auto& children = nodes_[node].children;
      const auto child = std::ranges::find(children, text[at], &std::pair<char, uint32_t>::first);
      if (child == children.end()) break;
      node = child->second;
      if (nodes_[node].number != SIZE_MAX) found = {begin, at + 1, nodes_[node].number};
    }
    if (found.number != SIZE_MAX) return found;
  }
  return {text.size(), text.size(), SIZE_MAX};
}

AddedTokens::AddedTokens(const JsonPart& json, const Vocabulary& vocabulary,
                         const Normalizer* normalizer) {
  const auto list = json.part("added_tokens");
  if (list.is_null()) return;
  if (!list.value().is_array() || list.value().size() >= kMaxTokens)
    throw list.refused("it is not a list");
  auto next = static_cast<int32_t>(vocabulary.size());
  for (size_t i = 0; i < list.value().size(); ++i) {
    const auto part = list.element(list.value()[i], "[" + std::to_string(i) + "]");
    auto token = read_added_token(part);
    if (token.content.empty()) continue;
    const auto known = by_content_.find(token.content);
    token.id =
        known != by_content_.end() ? tokens_[known->second].id : vocabulary.find(token.content);
    if (token.id < 0) token.id = next++;
    add(std::move(token), normalizer);
  }
  for (const auto& [id, number] : by_id_) {
    const auto& token = tokens_[number];
    end_ = std::max(end_, static_cast<size_t>(id) + 1);
    if (token.normalized)
      normalized_.add(token.decoded, number);
    else
      plain_.add(token.content, number);
  }
}

void AddedTokens::add(AddedToken token, const Normalizer* normalizer) {
  token.decoded = token.content;
  if (token.normalized && normalizer) {
    NormalText text{token.content, true};
    normalizer->apply(text);
    token.decoded = text.text;
  }
  by_content_[token.content] = by_id_[token.id] = tokens_.size();
  tokens_.push_back(std::move(token));
}

bool AddedTokens::extend(const AddedToken& token, std::string_view text, size_t done,
                         TokenFinder::Found& found) {
  if (token.single_word) {
    const bool joins_left =
        found.begin > 0 && is_word_character(last_character(text.substr(0, found.begin)));
    const bool joins_right =
        found.end < text.size() && is_word_character(first_character(text.substr(found.end)));
    if (joins_left || joins_right) return false;
  }
  if (token.left_strip) {
    auto begin = found.begin;
    while (begin > 0) {
      const auto before = text.substr(0, begin);
      const auto last = last_character(before);
      if (!is_white_space(last)) break;
      begin -= last < 0x80 ? 1 : last < 0x800 ? 2 : 3;
    }
    found.begin = std::max(begin, done);
  }
  if (token.right_strip)
    for (auto at = found.end; at < text.size() && is_white_space(next_character(text, at));)
      found.end = at;
  return true;
}

const AddedToken* AddedTokens::find(const std::string& content) const {
  const auto found = by_content_.find(content);
  return found == by_content_.end() ? nullptr : &tokens_[found->second];
}

const AddedToken* AddedTokens::find(int32_t id) const {
  const auto found = by_id_.find(id);
  return found == by_id_.end() ? nullptr : &tokens_[found->second];
}

}  // namespace lockstep::formats
