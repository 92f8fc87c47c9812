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
  char32_t smallest;  // a smaller code point in this form is overlong
};
constexpr std::array<Utf8Form, 4> kForms = {
    {{0x80, 0x00, 1, 0}, {0xE0, 0xC0, 2, 0x80}, {0xF0, 0xE0, 3, 0x800}, {0xF8, 0xF0, 4, 0x10000}}};

// Bytes of the character that `text` begins with; 0 when it is not well-formed.
size_t character_length(std::string_view text) {
  const auto first = static_cast<unsigned char>(text.front());
  for (const auto& form : kForms) {
    if ((first & form.mask) != form.lead) continue;
    if (text.size() < form.length) return 0;
    char32_t code = first & static_cast<unsigned char>(~form.mask);
    for (size_t i = 1; i < form.length; ++i) {
      const auto byte = static_cast<unsigned char>(text[i]);
      if ((byte & 0xC0) != 0x80) return 0;
      code = (code << 6) | (byte & 0x3F);
    }
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    return code < form.smallest || code > 0x10FFFF || surrogate ? 0 : form.length;
  }
  return 0;
}

std::string escaped(char c) {
  switch (c) {
    case '\n': return "\\n";
    case '\r': return "\\r";
    case '\t': return "\\t";
    default: return fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
  }
}

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

}  // namespace

std::string printable(std::string_view text, size_t longest) {
  std::string out;
  for (size_t at = 0; at < text.size();) {
    const auto length = character_length(text.substr(at));
    if (at + std::max<size_t>(length, 1) > longest) return out + "...";
    if (length == 0 || is_control(text[at]))
      out += escaped(text[at]);
    else
      out += text.substr(at, length);
    at += std::max<size_t>(length, 1);
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
    const auto length = character_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::string_view::npos;
}

}  // namespace lockstep
