#include "launch/rendezvous/job_token.h"

#include <fmt/format.h>
#include <poll.h>

#include "core/system/durable_file.h"
#include "launch/protocol/token.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr int kPollIntervalMs = 50;
constexpr size_t kTokenDigits = 64;

bool is_complete(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return !error && size > kTokenDigits;
}

// Polls: a shared file system does not notify of files that other hosts create.
void wait_for(const fs::path& file, std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  while (!is_complete(file)) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw environment_error(
          fmt::format("timed out after {:g} s: no job token in {}: if the nodes share no file "
                      "system, set LOCKSTEP_RDZV_TOKEN to the same secret on all of them",
                      std::chrono::duration<double>(timeout).count(), file.string()));
    ::poll(nullptr, 0, kPollIntervalMs);
  }
}

}  // namespace

JobToken::JobToken(const fs::path& directory, const std::string& job, bool serves,
                   std::chrono::milliseconds timeout)
    : file_(directory / fmt::format(".lockstep-{}.token", job)), serves_(serves) {
  if (serves) {
    std::error_code error;
    created_directory_ = !fs::exists(directory, error);
    make_directories(directory);
    // An existing file is from an earlier start of this job, and may have been read already.
    if (!is_complete(file_)) {
      fs::remove(file_, error);
      make_token_file(file_);
    }
  } else {
    wait_for(file_, timeout);
  }
  text_ = read_token(file_);
}

JobToken::~JobToken() {
  std::error_code error;
  if (!serves_) return;
  fs::remove(file_, error);
  if (created_directory_) fs::remove(file_.parent_path(), error);  // only where it is empty
}

}  // namespace lockstep::launch
