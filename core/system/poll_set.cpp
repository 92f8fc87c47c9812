#include "core/system/poll_set.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kMaxTurn{1000};

}  // namespace

void PollSet::watch(const pollfd& request, OnReady on_ready) {
  requests_.push_back(request);
  on_ready_.push_back(std::move(on_ready));
}

void PollSet::wait() {
  using std::chrono::milliseconds;
  const auto now = Clock::now();
  const auto left =
      wake_ < now + kMaxTurn ? std::chrono::ceil<milliseconds>(wake_ - now) : kMaxTurn;
  const int timeout = static_cast<int>(std::max(left, milliseconds(0)).count());
  auto requests = std::exchange(requests_, {});
  auto on_ready = std::exchange(on_ready_, {});
  wake_ = Clock::time_point::max();
  if (::poll(requests.data(), requests.size(), timeout) < 0) {
    if (errno == EINTR) return;
    throw errno_error("cannot wait for events");
  }
  for (size_t i = 0; i < requests.size(); ++i)
    if (requests[i].revents) on_ready[i](requests[i].revents);
}

}  // namespace lockstep
