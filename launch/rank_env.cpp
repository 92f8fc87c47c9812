#include "launch/rank_env.h"

#include <cstdlib>

namespace lockstep {
std::optional<std::string> environment(const char* name) {
  const char* value = std::getenv(name);
  if (!value || !*value) return std::nullopt;
  return value;
}
}  // namespace lockstep
