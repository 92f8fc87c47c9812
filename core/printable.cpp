#include "core/printable.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

namespace lockstep {
namespace {

struct Utf8Form {
  unsigned char mask, lead;
  size_t length;
  char32_t smallest;  // smaller code points in this form are overlong
};
constexpr std::array<Utf8Form, 4> kForms = {
    {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}}};

struct Character {
  char32_t code = 0;
  size_t length = 0;  // in bytes; 0: invalid UTF-8
};

Character first_character(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  for (const auto& form : kForms) {
    if ((first & form.mask) != form.lead) continue;
    if (text.size() < form.length) return {};
    char32_t code = first & static_cast<unsigned char>(~form.mask);
    for (size_t i = 1; i < form.length; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xC0) != 0x80) return {};
      code = (code << 6) | (byte & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (code < form.smallest || code > 0x10FFFF || surrogate) return {};
    return {code, form.length};
  }
  return {};
}

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

// Characters that affect how surrounding text is displayed: control characters and bidirectional
// formatting characters, which could disguise a file name extension.
bool is_control(char32_t code) {
  return code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0x61C || code == 0x200E ||
         code == 0x200F || (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto [code, known] = first_character(text.substr(at));
    const auto length = std::max<size_t>(known, 1);
    if (at + length > max_bytes) return out + "...";
    if (known == 0 || code < 0x80)
      out += known == 0 || is_control(code) ? escaped(text[at]) : std::string(1, text[at]);
    else if (is_control(code))
      out += fmt::format("\\u{:04x}", static_cast<uint32_t>(code));
    else
      out += text.substr(at, length);
    at += length;
  }
  return out;
}

std::string shell_word(std::string_view text) {
  const auto is_safe = [](unsigned char c) {
    return std::isalnum(c) ||
           std::string_view("_-./:=@%+,").find(static_cast<char>(c)) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), is_safe)) return std::string(text);
  std::string word = "'";
  for (const char c : text) word += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return word + "'";
}

size_t find_invalid_utf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const auto length = first_character(text.substr(at)).length;
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace lockstep
