#include "launch/environment/job_port.h"

#include "core/system/crc32c.h"

namespace lockstep::launch {

int job_port(std::string_view job) {
  constexpr int kFirst = 15000, kCount = 15000;
  return kFirst + static_cast<int>(crc32c(job.data(), job.size()) % kCount);
}

}  // namespace lockstep::launch
