#include "launch/workers/group_member.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "core/system/poll_set.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using AnswerClock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kRepeatEvery{100};  // the function of a LossWatch

// 0: nothing was written.
int64_t take_count(int event_fd) {
  uint64_t count = 0;
  return ::read(event_fd, &count, sizeof count) == sizeof count ? static_cast<int64_t>(count) : 0;
}

bool is_invitation(const std::string& text) {
  return decode_group_answer(text).kind == GroupAnswer::Kind::Invited;
}

}  // namespace

GroupMember::GroupMember(int fd, std::string address) : fd_(fd), address_(std::move(address)) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
}

bool GroupMember::send(const GroupRequest& request) const {
  const auto text = encode(request);
  return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

GroupAnswer GroupMember::ask(GroupRequest request,
                             std::optional<std::chrono::milliseconds> timeout) {
  std::array<char, 1> late{};
  while (is_answer_late_ && ::recv(fd_.get(), late.data(), late.size(), MSG_DONTWAIT) > 0) {
  }
  is_answer_late_ = false;
  // Now, so that the others can connect as soon as they have their answers.
  if (!listener_.fd.is_open())
    listener_ = address_.empty() ? listen_as_master(0, /*loopback_only=*/true)
                                 : listen_as_master_at(address_);
  request.port = listener_.port;
  if (!send(request)) return {};
  return receive(timeout, /*may_quit=*/request.step == kNoState);
}

GroupAnswer GroupMember::wait() {
  while (true)
    if (auto answer = receive(std::nullopt, /*may_quit=*/true);
        answer.kind != GroupAnswer::Kind::Wait)
      return answer;
}

bool GroupMember::take_invitation() {
  std::array<char, 512> text{};
  bool is_invited = false;
  ssize_t bytes = 0;
  while ((bytes = ::recv(fd_.get(), text.data(), text.size(), MSG_DONTWAIT)) > 0)
    is_invited = is_invited || is_invitation({text.data(), static_cast<size_t>(bytes)});
  return is_invited;
}

std::optional<int> GroupMember::take_listener(const GroupAnswer& place) {
  auto listener = std::exchange(listener_, {});
  if (place.rank != 0 || place.world_size == 1) return std::nullopt;
  return listener.fd.release();
}

// The launcher ignores a request to end if it has just given this worker a place, so one is sent before
// each answer that is waited for, not once.
GroupAnswer GroupMember::receive(std::optional<std::chrono::milliseconds> timeout, bool may_quit) {
  std::optional<AnswerClock::time_point> deadline;
  if (timeout) deadline = AnswerClock::now() + *timeout;
  std::array<pollfd, 2> requests{pollfd{fd_.get(), POLLIN, 0},
                                 pollfd{may_quit ? quit_fd_ : -1, POLLIN, 0}};
  while (poll_until(requests, deadline) > 0) {
    if (requests[1].fd >= 0 && requests[1].revents != 0) {
      if (!send({GroupRequest::Kind::Quitting, kNoState})) return {};
      requests[1].fd = -1;
      continue;
    }
    const auto size = ::recv(fd_.get(), nullptr, 0, MSG_PEEK | MSG_TRUNC);  // of the next answer
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return {};
    std::string text(static_cast<size_t>(size), '\0');
    const auto bytes = ::recv(fd_.get(), text.data(), text.size(), 0);
    if (bytes == size && is_invitation(text)) continue;  // the group is left already
    return bytes == size ? decode_group_answer(text) : GroupAnswer();
  }
  is_answer_late_ = true;
  return {};
}

LossWatch::LossWatch(int fd, std::function<void()> on_loss)
    : fd_(fd), wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), on_loss_(std::move(on_loss)) {
  if (!wake_.is_open()) throw errno_error("cannot watch for lost ranks");
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

LossWatch::~LossWatch() {
  watcher_.request_stop();
  wake();
}

void LossWatch::wake() const {
  const uint64_t one = 1;
  [[maybe_unused]] const auto written = ::write(wake_.get(), &one, sizeof one);
}

void LossWatch::leave() {
  const MutexLock lock(mutex_);
  group_.reset();
}

void LossWatch::enter(int64_t group) {
  {
    const MutexLock lock(mutex_);
    group_ = group;
  }
  wake();
}

void LossWatch::watch(const std::stop_token& stop) {
  std::array<pollfd, 2> requests{pollfd{fd_, POLLIN, 0}, pollfd{wake_.get(), POLLIN, 0}};
  while (!stop.stop_requested()) {
    bool is_broken = false;
    {
      const MutexLock lock(mutex_);
      lost_groups_ += take_count(fd_);
      is_broken = group_ && lost_groups_ > *group_;
      if (is_broken) on_loss_();
    }
    std::optional<AnswerClock::time_point> next;
    if (is_broken) next = AnswerClock::now() + kRepeatEvery;
    poll_until(requests, next);
    take_count(wake_.get());
  }
}

}  // namespace lockstep::launch
