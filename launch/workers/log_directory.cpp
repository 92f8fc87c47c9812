#include "launch/workers/log_directory.h"

#include <fmt/format.h>

#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::launch {

std::filesystem::path claim_attempt(const std::filesystem::path& log_dir) {
  make_directories(log_dir);
  for (int attempt = 0;; ++attempt) {
    auto directory = log_dir / fmt::format("attempt_{}", attempt);
    std::error_code error;
    if (std::filesystem::create_directory(directory, error)) return directory;
    if (error)
      throw environment_error(
          fmt::format("cannot create directory {}: {}", directory.string(), error.message()));
  }
}

std::string start_directory(int local_rank, int start) {
  return start == 0 ? std::to_string(local_rank) : fmt::format("{}.{}", local_rank, start);
}

}  // namespace lockstep::launch
