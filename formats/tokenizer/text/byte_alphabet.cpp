#include "formats/tokenizer/text/byte_alphabet.h"

#include "formats/tokenizer/text/unicode.h"

namespace lockstep::formats {
namespace {

bool prints(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The characters of the bytes in UTF-8; all are below U+0800.
struct SpelledByte {
  char bytes[2];
  uint8_t size;
};

const std::array<SpelledByte, 256>& spelled_bytes() {
  static const auto spelled = [] {
    std::array<SpelledByte, 256> all{};
    for (size_t byte = 0; byte < 256; ++byte) {
      std::string text;
      append_character(text, byte_alphabet()[byte]);
      all[byte] = {{text[0], text.size() == 2 ? text[1] : '\0'}, static_cast<uint8_t>(text.size())};
    }
    return all;
  }();
  return spelled;
}

}  // namespace

const std::array<char32_t, 256>& byte_alphabet() {
  static const auto alphabet = [] {
    std::array<char32_t, 256> points{};
    char32_t next = 256;
    for (int byte = 0; byte < 256; ++byte)
      points[static_cast<size_t>(byte)] = prints(byte) ? static_cast<char32_t>(byte) : next++;
    return points;
  }();
  return alphabet;
}

size_t to_byte_alphabet(std::string_view bytes, char* out) {
  const auto& spelled = spelled_bytes();
  auto* end = out;
  for (const auto byte : bytes) {
    const auto& spelling = spelled[static_cast<uint8_t>(byte)];
    *end++ = spelling.bytes[0];
    if (spelling.size == 2) *end++ = spelling.bytes[1];
  }
  return static_cast<size_t>(end - out);
}

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text(2 * bytes.size(), '\0');
  text.resize(to_byte_alphabet(bytes, text.data()));
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  static const auto bytes_of = [] {
    std::array<int16_t, 0x200> bytes;
    bytes.fill(-1);
    for (size_t byte = 0; byte < 256; ++byte)
      bytes[byte_alphabet()[byte]] = static_cast<int16_t>(byte);
    return bytes;
  }();
  std::string bytes;
  for (size_t at = 0; at < text.size();) {
    const auto character = next_character(text, at);
    if (character >= bytes_of.size() || bytes_of[character] < 0) return std::nullopt;
    bytes += static_cast<char>(bytes_of[character]);
  }
  return bytes;
}

}  // namespace lockstep::formats
