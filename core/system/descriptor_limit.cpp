#include "core/system/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace lockstep {

void raise_descriptor_limit(uint64_t target) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= target) return;
  limit.rlim_cur = std::min<rlim_t>(target, limit.rlim_max);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

}  // namespace lockstep
