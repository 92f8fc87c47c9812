#include "tracking/http/retry_later.h"

namespace lockstep::tracking {
namespace {

constexpr int64_t kMaxPauseSeconds = 600;

}  // namespace

std::chrono::seconds pause_of(const HttpResponse& response) {
  return std::chrono::seconds(
      seconds_of_retry_after(response.header("retry-after"), kMaxPauseSeconds));
}

}  // namespace lockstep::tracking
