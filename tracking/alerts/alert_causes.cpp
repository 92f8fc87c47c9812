#include "tracking/alerts/alert_causes.h"

#include <algorithm>

namespace lockstep::tracking {
namespace {

constexpr size_t kMaxAlertCauses = 1'000;

}  // namespace

bool AlertCauses::mark_active(const std::string& cause) {
  const auto known = last_seen_s_.find(cause);
  if (known != last_seen_s_.end()) {
    const bool was_absent = now_s_ - known->second >= pause_s_;
    known->second = now_s_;
    return was_absent;
  }
  if (last_seen_s_.size() >= kMaxAlertCauses)
    std::erase_if(last_seen_s_, [&](const auto& item) { return now_s_ - item.second >= pause_s_; });
  if (last_seen_s_.size() >= kMaxAlertCauses) return false;
  last_seen_s_.emplace(cause, now_s_);
  return true;
}

Json AlertCauses::state() const {
  auto state = Json::object();
  for (const auto& [cause, last_seen_s] : last_seen_s_) state[cause] = now_s_ - last_seen_s;
  return state;
}

void AlertCauses::restore(const Json& state, double passed_s) {
  if (!state.is_object()) return;
  for (const auto& [cause, age] : state.items())
    if (age.is_number() && last_seen_s_.size() < kMaxAlertCauses)
      last_seen_s_[cause] = now_s_ - age.get<double>() - std::max(passed_s, 0.0);
}

}  // namespace lockstep::tracking
