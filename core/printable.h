// Text from outside, made fit for a message: an error is one line, whatever the input holds.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// `text` with control characters, marks of the writing direction and broken UTF-8 escaped ("\n",
// "\x04", "\u202e"), cut with "..." after the last whole character within its first `longest` bytes.
std::string printable(std::string_view text, size_t longest = 60);

// `text` as one word of a shell's command line, in quotes where it needs them.
std::string shell_word(std::string_view text);

// The first byte of `text` that is no part of well-formed UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lockstep
