#include "launch/workers/regrouping.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <bit>
#include <tuple>

#include "lockstep/error.h"

namespace lockstep::launch {

using Kind = GroupAnswer::Kind;

Regrouping::Regrouping(int num_ranks, int num_spares, std::filesystem::path directory)
    : max_ranks_(num_ranks), world_size_(num_ranks), directory_(std::move(directory)) {
  members_.resize(static_cast<size_t>(num_ranks) + static_cast<size_t>(num_spares));
  for (size_t i = 0; i < members_.size(); ++i) {
    std::array<int, 2> ends{};
    if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw errno_error("cannot create a socket for a rank");
    members_[i].link = FileDescriptor(ends[0]);
    members_[i].worker_end = FileDescriptor(ends[1]);
    if (static_cast<int>(i) < num_ranks) members_[i].rank = static_cast<int>(i);
  }
}

Regrouping::~Regrouping() {
  std::error_code ignored;
  for (const auto& store : stores_) std::filesystem::remove(store, ignored);
}

FileDescriptor Regrouping::take_worker_end(int worker) {
  return std::move(members_[static_cast<size_t>(worker)].worker_end);
}

void Regrouping::watch(PollSet& polls) {
  for (auto& member : members_)
    if (member.link.is_open())
      polls.watch({.fd = member.link.get(), .events = POLLIN, .revents = 0},
                  [&member](short) { member.is_readable = true; });
}

void Regrouping::receive(Member& member) {
  std::array<char, 32> text{};
  const auto bytes = ::recv(member.link.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto request =
      bytes > 0 ? decode_group_request(std::string(text.data(), static_cast<size_t>(bytes)))
                : std::nullopt;
  if (request)
    handle(member, *request);
  else
    member.link.close();  // the worker has ended, or sends something else
}

void Regrouping::handle(Member& member, const GroupRequest& request) {
  if (request.kind != GroupRequest::Kind::Quitting) {
    if (request.step == kNoState && !member.rank) notes_.emplace_back("a spare is ready");
    member.asked = request;
  } else if (!member.rank && member.asked) {
    member.has_quit = true;
    if (!is_stopping_) notes_.emplace_back("a spare left after SIGTERM");
    answer(member, {.kind = Kind::End});
  }
}

void Regrouping::answer(Member& member, const GroupAnswer& answer) {
  const auto text = encode(answer);
  if (answer.kind == Kind::Wait)
    member.asked = GroupRequest();  // it drops its state
  else
    member.asked.reset();
  if (member.link.is_open() &&
      ::send(member.link.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    member.link.close();
}

bool Regrouping::has_members() const { return std::ranges::any_of(members_, &Member::is_in_group); }

bool Regrouping::all_have_asked() const {
  return std::ranges::all_of(members_, [](const auto& member) {
    return !member.is_in_group() || member.asked.has_value();
  });
}

bool Regrouping::is_leaving_asked() const {
  return std::ranges::any_of(
      members_, [](const auto& member) { return member.asks_to(GroupRequest::Kind::Leaving); });
}

// Whether workers that leave have an answer: their group no longer exists, and the others need a new
// one even if they will stop, to save a checkpoint.
bool Regrouping::is_letting_go() const {
  return !lost_.empty() && std::ranges::all_of(lost_, &LostRank::has_left);
}

void Regrouping::update() {
  for (auto& member : members_)
    if (std::exchange(member.is_readable, false)) receive(member);
  if (is_stopping_ && !is_letting_go()) return refuse_members();
  const bool all_asked = all_have_asked();
  // The workers of a group that one of them leaves do not ask at the same time.
  if (lost_.empty() && !is_leaving_asked()) return refuse_members(/*only_broken=*/!all_asked);
  if (all_asked && let_go()) form_group();
}

// Their group failed for another reason than a loss.
void Regrouping::refuse_members(bool only_broken) {
  for (auto& member : members_)
    if (member.asked && member.rank &&
        (!only_broken || member.asked->kind == GroupRequest::Kind::Broken))
      answer(member, {.kind = Kind::Refused});
}

// Of a group whose workers have all asked. Returns whether those that leave have left.
bool Regrouping::let_go() {
  const bool some_stay = std::ranges::any_of(members_, [](const auto& member) {
    return member.is_in_group() && !member.asks_to(GroupRequest::Kind::Leaving);
  });
  if (!some_stay) {
    refuse_members();
    return false;
  }
  for (auto& member : members_) {
    if (!member.asks_to(GroupRequest::Kind::Leaving)) continue;
    lost_.push_back({*std::exchange(member.rank, std::nullopt), "SIGTERM", /*has_left=*/true});
    member.has_left = true;
    answer(member, {.kind = Kind::End});
  }
  return std::ranges::none_of(members_, [](const auto& member) {
    return member.has_left && member.is_alive && member.link.is_open();
  });
}

void Regrouping::form_group() {
  std::vector<Member*> ready;
  for (auto& member : members_)
    if (member.is_alive && member.asked && member.link.is_open()) ready.push_back(&member);
  std::ranges::stable_sort(ready, {}, [](const Member* member) {
    return std::tuple(-member->asked->step, !member->rank.has_value(), member->rank.value_or(0));
  });
  if (ready.empty() || ready.front()->asked->step == kNoState) return stop();
  const auto count = std::bit_floor(
      std::min(static_cast<unsigned>(ready.size()), static_cast<unsigned>(max_ranks_)));
  stores_.push_back(directory_ / fmt::format("group_{}", stores_.size() + 1));
  RankLoss loss{.step = ready.front()->asked->step,
                .before = world_size_,
                .after = static_cast<int>(count),
                .ranks = std::exchange(lost_, {}),
                .spares = {}};
  for (size_t i = 0; i < count; ++i)
    if (!ready[i]->rank) loss.spares.push_back(static_cast<int>(ready[i] - members_.data()));
  world_size_ = loss.after;
  for (auto& member : members_) member.is_replaced = member.is_lost;
  for (size_t i = 0; i < ready.size(); ++i) {
    const bool joins = i < count;
    ready[i]->rank = joins ? std::optional(static_cast<int>(i)) : std::nullopt;
    answer(*ready[i], {.kind = joins ? Kind::Join : Kind::Wait,
                       .rank = static_cast<int>(i),
                       .world_size = world_size_,
                       .store = stores_.back(),
                       .loss = loss});
  }
  const auto waiting = ready.size() - count;
  notes_.push_back(fmt::format("{}: continuing with {} rank{}{}", lost_text(loss), count,
                               count == 1 ? "" : "s",
                               waiting > 0 ? fmt::format(", {} waiting as spare", waiting) : ""));
  changed_ = true;
}

bool Regrouping::lose(int worker, const std::string& what) {
  auto& member = members_[static_cast<size_t>(worker)];
  member.is_alive = false;
  member.asked.reset();
  const auto rank = std::exchange(member.rank, std::nullopt);
  if (!has_members()) {
    stop();
    return false;
  }
  member.is_lost = true;
  member.is_replaced = !rank;
  if (rank)
    lost_.push_back({*rank, what});
  else if (!member.has_left && !member.has_quit)
    notes_.push_back(fmt::format("a spare was lost, {}", what));
  return true;
}

void Regrouping::leave(int worker) {
  auto& member = members_[static_cast<size_t>(worker)];
  member.is_alive = false;
  member.asked.reset();
  member.rank.reset();
  if (!has_members()) stop();
}

void Regrouping::stop() {
  if (std::exchange(is_stopping_, true)) return;
  if (!is_letting_go()) refuse_members();
  for (auto& member : members_) {
    if (!member.rank) answer(member, {.kind = Kind::End});
  }
}

std::optional<int> Regrouping::rank_of(int worker) const {
  const auto& member = members_[static_cast<size_t>(worker)];
  return member.is_alive ? member.rank : std::nullopt;
}

}  // namespace lockstep::launch
