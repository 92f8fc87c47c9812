// Characters of UTF-8 text: decoding, classes, lower case and normalization forms. Classes are
// those of utf8proc (Unicode 15.0). All functions expect valid UTF-8.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep::formats {

// The bytes of the character that begins with `first`.
inline size_t utf8_size(char first) {
  const auto byte = static_cast<uint8_t>(first);
  return byte < 0x80 ? 1 : byte < 0xE0 ? 2 : byte < 0xF0 ? 3 : 4;
}

// The character at `at`, which is moved behind it.
char32_t next_character(std::string_view text, size_t& at);
// The first and last characters. `text` must not be empty.
char32_t first_character(std::string_view text);
char32_t last_character(std::string_view text);
void append_character(std::string& text, char32_t character);
size_t count_characters(std::string_view text);

inline bool is_ascii(char32_t character) { return character < 0x80; }
bool is_ascii(std::string_view text);

// White_Space of Unicode.
bool is_white_space(char32_t character);
// General categories: N*, P* or ASCII punctuation, C* without unassigned characters, M*, Mn.
bool is_numeric(char32_t character);
bool is_punctuation(char32_t character);
bool is_control_or_format(char32_t character);
bool is_mark(char32_t character);
bool is_nonspacing_mark(char32_t character);
// \w of Unicode regular expressions: letters, marks, decimal and letter numbers, connectors,
// joiners.
bool is_word_character(char32_t character);
// The four blocks of Chinese characters of BERT and their supplements.
bool is_chinese(char32_t character);

// Appends the lower case of a character, which may be two characters.
void append_lower(std::string& text, char32_t character);

enum class NormalForm { C, D, KC, KD };
std::string normalized(std::string_view text, NormalForm form);

// The bytes of the first grapheme cluster of `text`, which must not be empty.
size_t grapheme_size(std::string_view text);

// `bytes` with each maximal invalid part replaced by U+FFFD.
std::string valid_utf8(std::string_view bytes);

}  // namespace lockstep::formats
