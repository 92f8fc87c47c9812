#include "launch/workers/group_member.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <limits>

#include "core/number_text.h"

namespace lockstep::launch {
namespace {

using AnswerClock = std::chrono::steady_clock;

constexpr size_t kMaxAnswerBytes = 16u << 10;
constexpr std::array kRequestKinds = {"broken", "changing", "leaving", "quitting"};
constexpr std::array kAnswerKinds = {"join", "wait", "end", "refused"};

// Waits until one of them is readable. Negative ones are ignored. Returns false on timeout.
bool wait_readable(std::array<pollfd, 2>& requests,
                   std::optional<AnswerClock::time_point> deadline) {
  while (true) {
    int wait_ms = -1;
    if (deadline) {
      const auto left =
          std::chrono::ceil<std::chrono::milliseconds>(*deadline - AnswerClock::now());
      wait_ms =
          static_cast<int>(std::clamp<int64_t>(left.count(), 0, std::numeric_limits<int>::max()));
    }
    const int count = ::poll(requests.data(), requests.size(), wait_ms);
    if (count > 0) return true;
    if (count == 0) return false;
    if (errno != EINTR) return false;
  }
}

}  // namespace

std::string encode(const GroupRequest& request) {
  return fmt::format("{} {}", kRequestKinds[static_cast<size_t>(request.kind)], request.step);
}

std::optional<GroupRequest> decode_group_request(const std::string& text) {
  const auto end = std::min(text.find(' '), text.size());
  const auto kind = std::ranges::find(kRequestKinds, text.substr(0, end));
  if (kind == kRequestKinds.end() || end == text.size()) return std::nullopt;
  const auto step = parse_number<int64_t>(text.substr(end + 1));
  if (!step) return std::nullopt;
  return GroupRequest{static_cast<GroupRequest::Kind>(kind - kRequestKinds.begin()), *step};
}

std::string encode(const GroupAnswer& answer) {
  return Json{{"answer", kAnswerKinds[static_cast<size_t>(answer.kind)]},
              {"rank", answer.rank},
              {"world_size", answer.world_size},
              {"store", answer.store.string()},
              {"loss", to_json(answer.loss)}}
      .dump(-1, ' ', false, Json::error_handler_t::replace);
}

GroupAnswer decode_group_answer(const std::string& text) {
  const auto json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return {};
  try {
    const auto kind = std::ranges::find(kAnswerKinds, json.at("answer").get<std::string>());
    if (kind == kAnswerKinds.end()) return {};
    return {.kind = static_cast<GroupAnswer::Kind>(kind - kAnswerKinds.begin()),
            .rank = json.at("rank").get<int>(),
            .world_size = json.at("world_size").get<int>(),
            .store = json.at("store").get<std::string>(),
            .loss = rank_loss_from_json(json.at("loss")).value_or(RankLoss())};
  } catch (const Json::exception&) {
    return {};
  }
}

GroupMember::GroupMember(int fd) : fd_(fd) { ::fcntl(fd, F_SETFD, FD_CLOEXEC); }

bool GroupMember::send(const GroupRequest& request) const {
  const auto text = encode(request);
  return ::send(fd_.get(), text.data(), text.size(), MSG_NOSIGNAL) >= 0;
}

GroupAnswer GroupMember::ask(const GroupRequest& request,
                             std::optional<std::chrono::milliseconds> timeout) {
  std::array<char, 1> late{};
  while (is_answer_late_ && ::recv(fd_.get(), late.data(), late.size(), MSG_DONTWAIT) > 0) {
  }
  is_answer_late_ = false;
  if (!send(request)) return {};
  return receive(timeout, /*may_quit=*/request.step == kNoState);
}

GroupAnswer GroupMember::wait() {
  while (true)
    if (auto answer = receive(std::nullopt, /*may_quit=*/true);
        answer.kind != GroupAnswer::Kind::Wait)
      return answer;
}

// The launcher ignores a request to end if it has just given this worker a place, so one is sent before
// each answer that is waited for, not once.
GroupAnswer GroupMember::receive(std::optional<std::chrono::milliseconds> timeout, bool may_quit) {
  std::optional<AnswerClock::time_point> deadline;
  if (timeout) deadline = AnswerClock::now() + *timeout;
  std::array<pollfd, 2> requests{pollfd{fd_.get(), POLLIN, 0},
                                 pollfd{may_quit ? quit_fd_ : -1, POLLIN, 0}};
  while (wait_readable(requests, deadline)) {
    if (requests[1].fd >= 0 && requests[1].revents != 0) {
      if (!send({GroupRequest::Kind::Quitting, kNoState})) return {};
      requests[1].fd = -1;
      continue;
    }
    std::string text(kMaxAnswerBytes, '\0');
    const auto bytes = ::recv(fd_.get(), text.data(), text.size(), 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return {};
    text.resize(static_cast<size_t>(bytes));
    return decode_group_answer(text);
  }
  is_answer_late_ = true;
  return {};
}

}  // namespace lockstep::launch
