// Whether a text fully matches a POSIX extended regular expression. (std::regex causes g++ 12
// warnings with the address sanitizer.)
#pragma once

#include <regex.h>

#include <stdexcept>
#include <string>

namespace lockstep {

inline bool matches(const std::string& text, const std::string& pattern) {
  regex_t compiled;
  if (::regcomp(&compiled, ("^(" + pattern + ")$").c_str(), REG_EXTENDED | REG_NOSUB) != 0)
    throw std::invalid_argument("not a regular expression: " + pattern);
  const bool found = ::regexec(&compiled, text.c_str(), 0, nullptr, 0) == 0;
  ::regfree(&compiled);
  return found;
}

}  // namespace lockstep
