// The 256 printable characters that represent bytes in a byte-level vocabulary, so that it contains
// no whitespace or control characters. Source: bytes_to_unicode() of GPT-2, as in the tokenizers
// library: printable bytes represent themselves, the others map to U+0100 and up, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::formats {

// The code point of each byte.
const std::array<char32_t, 256>& byte_alphabet();

// Replaces each byte by its character, in UTF-8, and back; nullopt for text with other characters.
std::string to_byte_alphabet(std::string_view bytes);
std::optional<std::string> from_byte_alphabet(std::string_view text);

// Writes the characters of `bytes` to `out`, at most two bytes for each. Returns their size.
size_t to_byte_alphabet(std::string_view bytes, char* out);

}  // namespace lockstep::formats
