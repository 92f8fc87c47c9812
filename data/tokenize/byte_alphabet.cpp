#include "data/tokenize/byte_alphabet.h"

#include <algorithm>

namespace lockstep::data {
namespace {

bool prints(int byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
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

std::string to_byte_alphabet(std::string_view bytes) {
  std::string text;
  for (const auto byte : bytes) {
    const auto point = byte_alphabet()[static_cast<uint8_t>(byte)];
    if (point < 0x80) {
      text += static_cast<char>(point);
    } else {  // all are below U+0800
      text += static_cast<char>(0xC0 | point >> 6);
      text += static_cast<char>(0x80 | (point & 0x3F));
    }
  }
  return text;
}

std::optional<std::string> from_byte_alphabet(std::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    auto point = static_cast<char32_t>(static_cast<uint8_t>(text[i]));
    if (point >= 0x80) {
      if ((point & 0xE0) != 0xC0 || i + 1 == text.size()) return std::nullopt;
      point = (point & 0x1F) << 6 | (static_cast<uint8_t>(text[++i]) & 0x3F);
    }
    const auto& alphabet = byte_alphabet();
    const auto found = std::ranges::find(alphabet, point);
    if (found == alphabet.end()) return std::nullopt;
    bytes += static_cast<char>(found - alphabet.begin());
  }
  return bytes;
}

}  // namespace lockstep::data
