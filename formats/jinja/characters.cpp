#include "formats/jinja/characters.h"

#include <algorithm>
#include <cctype>

#include "formats/jinja/value.h"

namespace lockstep::formats::jinja {
namespace {

bool is_continuation(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }

size_t size_of_first(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text.front());
  const size_t size = lead < 0xC0 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
  if (size > text.size()) return 1;
  for (size_t i = 1; i < size; ++i)
    if (!is_continuation(text[i])) return 1;
  return size;
}

size_t size_of_last(std::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(4, text.size()); ++size)
    if (size_of_first(text.substr(text.size() - size)) == size &&
        (size > 1 || !is_continuation(text.back())))
      return size;
  return 1;
}

uint32_t code_point_of(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  switch (character.size()) {
    case 2: return (byte(0) & 0x1Fu) << 6 | (byte(1) & 0x3Fu);
    case 3: return (byte(0) & 0x0Fu) << 12 | (byte(1) & 0x3Fu) << 6 | (byte(2) & 0x3Fu);
    case 4:
      return (byte(0) & 0x07u) << 18 | (byte(1) & 0x3Fu) << 12 | (byte(2) & 0x3Fu) << 6 |
             (byte(3) & 0x3Fu);
    default: return byte(0);
  }
}

bool is_letter(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0; }

}  // namespace

size_t count_characters(std::string_view text) {
  size_t count = 0;
  for (; !text.empty(); ++count) text.remove_prefix(size_of_first(text));
  return count;
}

std::vector<std::string_view> characters_of(std::string_view text) {
  std::vector<std::string_view> characters;
  while (!text.empty()) {
    characters.push_back(text.substr(0, size_of_first(text)));
    text.remove_prefix(characters.back().size());
  }
  return characters;
}

bool is_blank(std::string_view character) {
  const auto c = code_point_of(character);
  return (c >= 0x09 && c <= 0x0D) || (c >= 0x1C && c <= 0x20) ||
         (character.size() > 1 &&
          (c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) || c == 0x2028 ||
           c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000));
}

std::string_view strip(std::string_view text, Ends ends, std::string_view set) {
  const auto all = characters_of(set);
  const auto goes = [&](std::string_view character) {
    return set.data() ? std::ranges::find(all, character) != all.end() : is_blank(character);
  };
  if (ends != Ends::Right)
    while (!text.empty() && goes(text.substr(0, size_of_first(text))))
      text.remove_prefix(size_of_first(text));
  if (ends != Ends::Left)
    while (!text.empty() && goes(text.substr(text.size() - size_of_last(text))))
      text.remove_suffix(size_of_last(text));
  return text;
}

std::string with_case(std::string_view text, LetterCase letter_case) {
  std::string out;
  bool after_letter = false, after_break = true;
  for (const auto character : characters_of(text)) {
    if (character.size() > 1 && code_point_of(character) < 0x2000)
      throw Problem("changing the case of letters outside ASCII is not supported");
    const bool is_first = letter_case == LetterCase::Capitalized ? out.empty()
                          : letter_case == LetterCase::Words     ? after_break
                                                                 : !after_letter;
    const bool upper =
        letter_case == LetterCase::Upper || (letter_case != LetterCase::Lower && is_first);
    const auto c = static_cast<unsigned char>(character.front());
    if (character.size() > 1)
      out += character;
    else
      out += static_cast<char>(c >= 0x80 ? c : upper ? std::toupper(c) : std::tolower(c));
    after_letter = character.size() == 1 && is_letter(character.front());
    after_break =
        is_blank(character) || std::string_view("-({[<").find(character) != std::string_view::npos;
  }
  return out;
}

std::string encoded(uint32_t c) {
  std::string out;
  const auto add = [&](uint32_t byte) { out += static_cast<char>(byte); };
  if (c < 0x80) {
    add(c);
  } else if (c < 0x800) {
    add(0xC0 | c >> 6);
    add(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    add(0xE0 | c >> 12);
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  } else {
    add(0xF0 | (c >> 18 & 0x07));
    add(0x80 | (c >> 12 & 0x3F));
    add(0x80 | (c >> 6 & 0x3F));
    add(0x80 | (c & 0x3F));
  }
  return out;
}

}  // namespace lockstep::formats::jinja
