#include "tracking/http/retry_later.h"

#include <algorithm>

#include "core/number_text.h"

namespace lockstep::tracking {
namespace {

constexpr int64_t kMaxPauseSeconds = 600;

}  // namespace

std::chrono::seconds pause_of(const HttpResponse& response) {
  const auto text = response.header("retry-after");
  auto seconds = parse_number<int64_t>(text);
  if (!seconds) {
    const auto date = seconds_of_http_date(text);
    const auto now = std::chrono::system_clock::now().time_since_epoch();
    seconds = date > 0 ? date - std::chrono::duration_cast<std::chrono::seconds>(now).count() : 0;
  }
  return std::chrono::seconds(std::clamp<int64_t>(*seconds, 0, kMaxPauseSeconds));
}

}  // namespace lockstep::tracking
