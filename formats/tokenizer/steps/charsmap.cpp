#include "formats/tokenizer/steps/charsmap.h"

#include <algorithm>

#include "core/printable.h"
#include "formats/tokenizer/text/unicode.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kMaxGrapheme = 6;  // longer ones are replaced character by character

std::string from_base64(std::string_view text) {
  static constexpr std::string_view kDigits =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::array<int8_t, 256> values;
  values.fill(-1);
  for (size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<uint8_t>(kDigits[i])] = static_cast<int8_t>(i);
  if (text.size() % 4 != 0) throw config_error("precompiled_charsmap is not base64");
  for (int padding = 0; padding < 2 && text.ends_with('='); ++padding) text.remove_suffix(1);
  std::string bytes;
  bytes.reserve(text.size() * 3 / 4);
  uint32_t bits = 0;
  int count = 0;
  for (const auto digit : text) {
    const auto value = values[static_cast<uint8_t>(digit)];
    if (value < 0) throw config_error("precompiled_charsmap is not base64");
    bits = bits << 6 | static_cast<uint32_t>(value);
    count += 6;
    if (count < 8) continue;
    count -= 8;
    bytes += static_cast<char>(bits >> count & 0xFF);
  }
  return bytes;
}

uint32_t little_endian(std::string_view bytes, size_t at) {
  uint32_t number = 0;
  for (size_t i = 0; i < 4; ++i)
    number |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[at + i])) << (8 * i);
  return number;
}

// Units of the double array.
bool has_leaf(uint32_t unit) { return unit >> 8 & 1; }
uint32_t value_of(uint32_t unit) { return unit & 0x7FFF'FFFF; }
uint32_t label_of(uint32_t unit) { return unit & 0x8000'00FF; }
size_t offset_of(uint32_t unit) { return size_t{unit >> 10} << ((unit & 0x200) >> 6); }

}  // namespace

Charsmap::Charsmap(std::string_view base64) {
  const auto bytes = from_base64(base64);
  if (!bytes.empty()) {
    const auto size = bytes.size() < 4 ? size_t{0} : size_t{little_endian(bytes, 0)};
    if (bytes.size() < 4 || size % 4 != 0 || size > bytes.size() - 4)
      throw config_error("precompiled_charsmap is truncated");
    for (size_t at = 4; at < 4 + size; at += 4) trie_.push_back(little_endian(bytes, at));
    replacements_ = bytes.substr(4 + size);
    if (find_invalid_utf8(replacements_) != std::string_view::npos)
      throw config_error("precompiled_charsmap has a replacement that is not UTF-8");
  }
  for (size_t c = 0; c < unchanged_.size(); ++c)
    unchanged_[c] = !find(std::string(1, static_cast<char>(c)));
}

std::optional<std::string_view> Charsmap::find(std::string_view part) const {
  if (trie_.empty()) return std::nullopt;
  size_t at = offset_of(trie_[0]);
  for (const auto byte : part) {
    const auto label = static_cast<uint8_t>(byte);
    at ^= label;
    if (label == 0 || at >= trie_.size() || label_of(trie_[at]) != label) return std::nullopt;
    const auto unit = trie_[at];
    at ^= offset_of(unit);
    if (!has_leaf(unit)) continue;
    if (at >= trie_.size()) return std::nullopt;
    const auto begin = size_t{value_of(trie_[at])};
    if (begin > replacements_.size()) return std::nullopt;
    // A corrupt file may point into a character.
    if (begin < replacements_.size() && (static_cast<uint8_t>(replacements_[begin]) & 0xC0) == 0x80)
      return std::nullopt;
    const auto end = std::min(replacements_.find('\0', begin), replacements_.size());
    return std::string_view(replacements_).substr(begin, end - begin);
  }
  return std::nullopt;
}

void Charsmap::append_grapheme(std::string& out, std::string_view grapheme) const {
  if (grapheme.size() < kMaxGrapheme)
    if (const auto replacement = find(grapheme)) {
      out += *replacement;
      return;
    }
  for (size_t at = 0; at < grapheme.size();) {
    const auto begin = at;
    next_character(grapheme, at);
    const auto part = grapheme.substr(begin, at - begin);
    out += find(part).value_or(part);
  }
}

std::string Charsmap::apply(std::string_view text) const {
  if (trie_.empty()) return std::string(text);
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  const auto plain = [&](size_t i) {
    return static_cast<uint8_t>(text[i]) < 0x80 && unchanged_[static_cast<uint8_t>(text[i])];
  };
  for (size_t at = 0; at < text.size();) {
    // Between ASCII characters is a boundary, except between CR and LF.
    auto end = at;
    while (end < text.size() && plain(end)) ++end;
    if (end < text.size() && end > at) --end;  // what follows may belong to the last one
    out += text.substr(at, end - at);
    at = end;
    if (at == text.size()) break;
    // Beginning with such a character is the only way to be here with a plain one.
    const auto size = grapheme_size(text.substr(at));
    append_grapheme(out, text.substr(at, size));
    at += size;
  }
  return out;
}

}  // namespace lockstep::formats
