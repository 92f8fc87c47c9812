#include "launch/rendezvous/job_token.h"

#include <fmt/format.h>
#include <poll.h>

#include <chrono>

#include "core/system/durable_file.h"
#include "launch/protocol/token.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

namespace fs = std::filesystem;

constexpr auto kComesWithin = std::chrono::seconds(60);
constexpr int kLookEveryMs = 50;
constexpr size_t kTokenDigits = 64;

bool is_complete(const fs::path& file) {
  std::error_code error;
  const auto size = fs::file_size(file, error);
  return !error && size > kTokenDigits;
}

// A file system that is shared between hosts tells nobody that a file came: looking is all there
// is.
void wait_for(const fs::path& file) {
  const auto deadline = std::chrono::steady_clock::now() + kComesWithin;
  while (!is_complete(file)) {
    if (std::chrono::steady_clock::now() >= deadline)
      throw config_error(
          fmt::format("the job's token did not come within {} s as {}: if nodes share no file "
                      "system, set LOCKSTEP_RDZV_TOKEN to the same secret for all of them",
                      kComesWithin.count(), file.string()));
    ::poll(nullptr, 0, kLookEveryMs);
  }
}

}  // namespace

JobToken::JobToken(const fs::path& directory, const std::string& job, bool serves)
    : file_(directory / fmt::format(".lockstep-{}.token", job)), serves_(serves) {
  if (serves) {
    std::error_code error;
    made_directory_ = !fs::exists(directory, error);
    make_directories(directory);
    // One that is there is of an earlier start of this job, and may have been read already.
    if (!is_complete(file_)) {
      fs::remove(file_, error);
      make_token_file(file_);
    }
  } else {
    wait_for(file_);
  }
  text_ = read_token(file_);
}

JobToken::~JobToken() {
  std::error_code error;
  if (!serves_) return;
  fs::remove(file_, error);
  if (made_directory_) fs::remove(file_.parent_path(), error);  // only where it is empty
}

}  // namespace lockstep::launch
