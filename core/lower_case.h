// Text with its ASCII letters in lower case.
#pragma once

#include <string>

namespace lockstep {

inline std::string lower_case(std::string text) {
  for (auto& c : text)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return text;
}

}  // namespace lockstep
