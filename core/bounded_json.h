// JSON from files and messages that others may have written.
#pragma once

#include <string_view>

#include "lockstep/config_value.h"

namespace lockstep {

// Copying and writing a value recurse: deeper ones would overflow the stack.
inline constexpr int kMaxJsonDepth = 100;

// The value, or one that is_discarded(), which is neither an object nor a list, if `text` is invalid
// or nests objects and lists deeper than kMaxJsonDepth levels.
Json parse_json(std::string_view text);

}  // namespace lockstep
