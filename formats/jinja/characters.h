// UTF-8 text as a sequence of characters (code points), as Python sees it. Invalid bytes count as
// one character each. No LibTorch.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats::jinja {

size_t count_characters(std::string_view text);
std::vector<std::string_view> characters_of(std::string_view text);

// What str.isspace() says of the character that `text` begins with.
bool is_blank(std::string_view character);

// As str.strip(), lstrip() and rstrip(): without `set`, white space is removed, else its
// characters.
enum class Ends { Both, Left, Right };
std::string_view strip(std::string_view text, Ends ends = Ends::Both, std::string_view set = {});

// `text` with its ASCII letters changed. Throws Problem if it has other letters to change.
// Title: as str.title(). Words: as the filter title, where an apostrophe does not begin a word.
enum class LetterCase { Upper, Lower, Capitalized, Title, Words };
std::string with_case(std::string_view text, LetterCase letter_case);

// The UTF-8 bytes of a code point.
std::string encoded(uint32_t code_point);

}  // namespace lockstep::formats::jinja
