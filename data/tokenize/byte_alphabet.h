// The 256 printable characters that stand for bytes in a byte-level vocabulary, so that any text is
// a sequence of them and no vocabulary holds blanks or control characters.
// Source: bytes_to_unicode() of GPT-2, as in the tokenizers library: bytes that print stand for
// themselves, the others for U+0100 and up, in order.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lockstep::data {

// The code point of each byte.
const std::array<char32_t, 256>& byte_alphabet();

// `bytes` with each one replaced by its character, in UTF-8, and back; nothing for a text with
// other characters.
std::string to_byte_alphabet(std::string_view bytes);
std::optional<std::string> from_byte_alphabet(std::string_view text);

}  // namespace lockstep::data
