// Escapes untrusted text for messages, so that an error is always a single line.
#pragma once

#include <string>
#include <string_view>

namespace lockstep {

// `text` with control characters, bidirectional formatting characters and invalid UTF-8 escaped
// ("\n", "\x04", "\u202e"), truncated with "..." to complete characters within `max_bytes` bytes.
std::string printable(std::string_view text, size_t max_bytes = 60);

// `text` as one word of a shell command line, quoted if necessary.
std::string shell_word(std::string_view text);

// The position of the first byte of `text` that is not valid UTF-8, or npos.
size_t find_invalid_utf8(std::string_view text);

}  // namespace lockstep
