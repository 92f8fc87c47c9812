#include "formats/tokenizer/text/unicode.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <new>

#include "core/printable.h"

namespace lockstep::formats {
namespace {

utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

int normal_form_options(NormalForm form) {
  switch (form) {
    case NormalForm::C: return UTF8PROC_STABLE | UTF8PROC_COMPOSE;
    case NormalForm::D: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE;
    case NormalForm::KC: return UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT;
    case NormalForm::KD: return UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT;
  }
  return 0;
}

void append_normalized(std::string& out, std::string_view text, int options) {
  utf8proc_uint8_t* result = nullptr;
  const auto size = utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                 static_cast<utf8proc_ssize_t>(text.size()), &result,
                                 static_cast<utf8proc_option_t>(options));
  const std::unique_ptr<utf8proc_uint8_t, decltype(&std::free)> owned(result, std::free);
  if (size < 0) throw std::bad_alloc();  // the text is valid
  out.append(reinterpret_cast<const char*>(result), static_cast<size_t>(size));
}

bool in_interval(char32_t character, char32_t first, char32_t last) {
  return character >= first && character <= last;
}

bool ascii_punctuation(char32_t c) {
  return in_interval(c, '!', '/') || in_interval(c, ':', '@') || in_interval(c, '[', '`') ||
         in_interval(c, '{', '~');
}

bool ascii_word(char32_t c) {
  return in_interval(c, 'a', 'z') || in_interval(c, 'A', 'Z') || in_interval(c, '0', '9') ||
         c == '_';
}

}  // namespace

char32_t next_character(std::string_view text, size_t& at) {
  const auto byte = [&](size_t i) {
    return at + i < text.size() ? static_cast<char32_t>(static_cast<uint8_t>(text[at + i])) : 0x80;
  };
  const auto first = byte(0);
  const auto size = utf8_size(text[at]);
  char32_t character = first;
  if (size == 2) character = (first & 0x1F) << 6 | (byte(1) & 0x3F);
  if (size == 3) character = (first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
  if (size == 4)
    character =
        (first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
  at = std::min(at + size, text.size());
  return character;
}

char32_t first_character(std::string_view text) {
  size_t at = 0;
  return next_character(text, at);
}

char32_t last_character(std::string_view text) {
  auto at = text.size() - 1;
  while (at > 0 && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80) --at;
  return next_character(text, at);
}

void append_character(std::string& text, char32_t character) {
  if (is_ascii(character)) {
    text += static_cast<char>(character);
    return;
  }
  utf8proc_uint8_t bytes[4];
  const auto size = utf8proc_encode_char(static_cast<utf8proc_int32_t>(character), bytes);
  text.append(reinterpret_cast<const char*>(bytes), static_cast<size_t>(size));
}

size_t count_characters(std::string_view text) {
  return static_cast<size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<uint8_t>(byte) & 0xC0) != 0x80; }));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

bool is_white_space(char32_t c) {
  if (c <= ' ') return c == ' ' || in_interval(c, 0x09, 0x0D);
  if (c < 0x85) return false;
  return c == 0x85 || c == 0xA0 || c == 0x1680 || in_interval(c, 0x2000, 0x200A) || c == 0x2028 ||
         c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

bool is_numeric(char32_t c) {
  if (is_ascii(c)) return in_interval(c, '0', '9');
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t c) {
  if (is_ascii(c)) return ascii_punctuation(c);
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_control_or_format(char32_t c) {
  if (is_ascii(c)) return c < 0x20 || c == 0x7F;
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_CC && category <= UTF8PROC_CATEGORY_CO;
}

bool is_mark(char32_t c) {
  if (is_ascii(c)) return false;
  const auto category = category_of(c);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t c) {
  return !is_ascii(c) && category_of(c) == UTF8PROC_CATEGORY_MN;
}

bool is_word_character(char32_t c) {
  if (is_ascii(c)) return ascii_word(c);
  const auto category = category_of(c);
  if (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) return true;
  // Connectors, joiners, and symbols that are alphabetic: letters in circles and squares.
  return category == UTF8PROC_CATEGORY_PC || c == 0x200C || c == 0x200D ||
         in_interval(c, 0x24B6, 0x24E9) || in_interval(c, 0x1F130, 0x1F149) ||
         in_interval(c, 0x1F150, 0x1F169) || in_interval(c, 0x1F170, 0x1F189);
}

bool is_chinese(char32_t c) {
  if (c < 0x3400) return false;
  return in_interval(c, 0x4E00, 0x9FFF) || in_interval(c, 0x3400, 0x4DBF) ||
         in_interval(c, 0x20000, 0x2A6DF) || in_interval(c, 0x2A700, 0x2B73F) ||
         in_interval(c, 0x2B740, 0x2B81F) || in_interval(c, 0x2B920, 0x2CEAF) ||
         in_interval(c, 0xF900, 0xFAFF) || in_interval(c, 0x2F800, 0x2FA1F);
}

void append_lower(std::string& text, char32_t c) {
  if (is_ascii(c)) {
    text += static_cast<char>(in_interval(c, 'A', 'Z') ? c + 0x20 : c);
  } else if (c == 0x130) {  // a capital I with a dot: the only one with two characters
    text += "i\xCC\x87";
  } else {
    append_character(text,
                     static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

std::string normalized(std::string_view text, NormalForm form) {
  const auto options = normal_form_options(form);
  const auto ascii = [&](size_t i) { return static_cast<uint8_t>(text[i]) < 0x80; };
  std::string out;
  out.reserve(text.size() + text.size() / 8);
  size_t at = 0;
  while (at < text.size()) {
    auto end = at;
    while (end < text.size() && ascii(end)) ++end;
    if (end == text.size()) break;
    // An ASCII character is changed only by what follows it: one may begin a part.
    const auto begin = end > at ? end - 1 : end;
    out.append(text.substr(at, begin - at));
    while (end < text.size() && !ascii(end)) ++end;
    append_normalized(out, text.substr(begin, end - begin), options);
    at = end;
  }
  out.append(text.substr(at));
  return out;
}

size_t grapheme_size(std::string_view text) {
  size_t at = 0;
  auto before = next_character(text, at);
  utf8proc_int32_t state = 0;
  while (at < text.size()) {
    auto behind = at;
    const auto next = next_character(text, behind);
    if (utf8proc_grapheme_break_stateful(static_cast<utf8proc_int32_t>(before),
                                         static_cast<utf8proc_int32_t>(next), &state))
      break;
    at = behind;
    before = next;
  }
  return at;
}

std::string valid_utf8(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const auto good = std::min(find_invalid_utf8(bytes), bytes.size());
    text += bytes.substr(0, good);
    bytes.remove_prefix(good);
    if (bytes.empty()) break;
    text += "\xEF\xBF\xBD";
    // A maximal part: the longest one that valid bytes could complete, at least one byte.
    size_t part = 1;
    for (size_t size = 2; size <= 3 && size <= bytes.size(); ++size) {
      const auto completed = [&](const char* ending) {
        return find_invalid_utf8(std::string(bytes.substr(0, size)) + ending) ==
               std::string_view::npos;
      };
      if (completed("\x80") || completed("\x80\x80")) part = size;
    }
    bytes.remove_prefix(part);
  }
  return text;
}

}  // namespace lockstep::formats
