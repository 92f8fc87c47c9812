// Text without the spaces at its ends.
#pragma once

#include <algorithm>
#include <string_view>

namespace lockstep {

// `spaces`: the characters to remove.
inline std::string_view trimmed(std::string_view text, std::string_view spaces) {
  text.remove_prefix(std::min(text.find_first_not_of(spaces), text.size()));
  return text.substr(0, text.find_last_not_of(spaces) + 1);
}

}  // namespace lockstep
