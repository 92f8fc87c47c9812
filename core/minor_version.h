// Versions whose patch releases have the same interface.
#pragma once

#include <string>

namespace lockstep {

// "2.11" of "2.11.0+cu130".
inline std::string minor_of(const std::string& version) {
  const auto first = version.find('.');
  return first == std::string::npos ? version : version.substr(0, version.find('.', first + 1));
}

}  // namespace lockstep
