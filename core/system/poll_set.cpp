#include "core/system/poll_set.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <utility>

#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kMaxTurn{1000};

}  // namespace

int poll_until(std::span<pollfd> requests,
               std::optional<std::chrono::steady_clock::time_point> deadline) {
  using std::chrono::milliseconds;
  while (true) {
    milliseconds left(-1);
    if (deadline)
      left = std::clamp(std::chrono::ceil<milliseconds>(*deadline - PollSet::Clock::now()),
                        milliseconds(0), milliseconds(INT_MAX));
    const int ready = ::poll(requests.data(), requests.size(), static_cast<int>(left.count()));
    if (ready >= 0 || errno != EINTR) return ready;
  }
}

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
