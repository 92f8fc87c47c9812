#include "tracking/alerts/alert_causes.h"

namespace lockstep {
namespace {

constexpr size_t kMostAlertCauses = 1'000;

}  // namespace

bool AlertCauses::is_news(const std::string& cause) {
  const auto known = last_seen_s_.find(cause);
  if (known != last_seen_s_.end()) {
    const bool was_gone = now_s_ - known->second >= pause_s_;
    known->second = now_s_;
    return was_gone;
  }
  if (last_seen_s_.size() >= kMostAlertCauses)
    std::erase_if(last_seen_s_, [&](const auto& item) { return now_s_ - item.second >= pause_s_; });
  if (last_seen_s_.size() >= kMostAlertCauses) return false;
  last_seen_s_.emplace(cause, now_s_);
  return true;
}

}  // namespace lockstep
