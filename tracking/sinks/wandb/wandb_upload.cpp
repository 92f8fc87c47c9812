#include "tracking/sinks/wandb/wandb_upload.h"

#include <fmt/format.h>

#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

using namespace std::chrono_literals;
constexpr int kMaxCoreFailures = 3;

}  // namespace

// Returns true once the upload is complete. Failures before the retry limit return false.
bool WandbUpload::wait(std::chrono::milliseconds timeout) {
  try {
    if (!session_) session_ = std::make_unique<CoreSession>(target_, environment_);
    return session_->wait(timeout);
  } catch (const Error& error) {
    session_.reset();
    if (error.kind() != ErrorKind::Environment || ++num_failures_ >= kMaxCoreFailures) throw;
    return false;
  }
}

void WandbUpload::poll() {
  // The upload completed too early: it read an exit record that was truncated afterwards.
  if (wait(0ms)) session_.reset();
}

void WandbUpload::finish(std::chrono::milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  for (auto left = timeout; left > 0ms; left = std::chrono::ceil<std::chrono::milliseconds>(
                                            deadline - std::chrono::steady_clock::now()))
    if (wait(left)) return session_.reset();
  const auto activity = session_ ? session_->activity() : "";
  session_.reset();
  throw environment_error(fmt::format(
      "W&B at {}: upload timed out after {:.0f} s{}{}", target_.base_url,
      std::chrono::duration<double>(timeout).count(), activity.empty() ? "" : ": ", activity));
}

}  // namespace lockstep::tracking
