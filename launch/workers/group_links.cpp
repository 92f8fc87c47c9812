#include "launch/workers/group_links.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "lockstep/error.h"

namespace lockstep::launch {

using AnswerKind = GroupAnswer::Kind;

GroupLinks::GroupLinks(const NodePlace& place, int num_ranks, int num_spares)
    : has_nodes_(place.num_nodes > 1), world_size_(place.world_size) {
  for (int i = 0; i < num_ranks + num_spares; ++i) {
    links_.push_back(open_link());
    if (i < num_ranks && !place.joins) links_.back().rank = place.first_rank + i;
  }
}

GroupLinks::Link GroupLinks::open_link() const {
  Link link;
  std::array<int, 2> ends{};
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends.data()) != 0)
    throw errno_error("cannot create a socket for a rank");
  link.socket = FileDescriptor(ends[0]);
  link.worker_end = FileDescriptor(ends[1]);
  if (!has_nodes_) return link;
  link.loss = FileDescriptor(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!link.loss.is_open()) throw errno_error("cannot create an eventfd for a rank");
  return link;
}

void GroupLinks::start_again(int worker) {
  auto& link = links_[static_cast<size_t>(worker)];
  auto next = open_link();
  next.num_starts = link.num_starts + 1;
  link = std::move(next);
  changed_ = true;
  events_.push_back(
      {.kind = GroupEvent::Kind::Started, .worker = worker, .num_starts = link.num_starts});
}

FileDescriptor GroupLinks::take_worker_end(int worker) {
  return std::move(links_[static_cast<size_t>(worker)].worker_end);
}

void GroupLinks::watch(PollSet& polls) {
  for (auto& link : links_)
    if (link.socket.is_open())
      polls.watch({.fd = link.socket.get(), .events = POLLIN, .revents = 0},
                  [&link](short) { link.is_readable = true; });
}

void GroupLinks::update() {
  for (size_t i = 0; i < links_.size(); ++i)
    if (std::exchange(links_[i].is_readable, false)) receive(static_cast<int>(i));
}

void GroupLinks::receive(int worker) {
  auto& link = links_[static_cast<size_t>(worker)];
  std::array<char, 128> text{};
  const auto bytes = ::recv(link.socket.get(), text.data(), text.size(), MSG_DONTWAIT);
  if (bytes < 0 && (errno == EAGAIN || errno == EINTR)) return;
  const auto request =
      bytes > 0 ? decode_group_request(std::string(text.data(), static_cast<size_t>(bytes)))
                : std::nullopt;
  if (!request) return disconnect(worker);  // the worker has ended, or sends something else
  // Who waits and may end still waits if it does not.
  if (request->kind == GroupRequest::Kind::Quitting) {
    link.is_quitting = link.is_asking;
  } else {
    link.is_asking = true;
    link.request = *request;
  }
  events_.push_back({.kind = GroupEvent::Kind::Requested, .worker = worker, .request = *request});
  if (refuses_) refuse_all();
}

void GroupLinks::disconnect(int worker) {
  auto& link = links_[static_cast<size_t>(worker)];
  if (!link.socket.is_open()) return;
  link.socket.close();
  events_.push_back({.kind = GroupEvent::Kind::Disconnected, .worker = worker});
}

void GroupLinks::answer(int worker, const GroupAnswer& answer) {
  auto& link = links_[static_cast<size_t>(worker)];
  if (answer.kind == AnswerKind::Overdue) return overdue_.push_back(worker);
  if (answer.kind == AnswerKind::Lost) {
    if (answer.group < link.lost_groups) return;
    const auto added = static_cast<uint64_t>(answer.group + 1 - link.lost_groups);
    link.lost_groups = answer.group + 1;
    [[maybe_unused]] const auto written = ::write(link.loss.get(), &added, sizeof added);
    return;
  }
  if (answer.kind == AnswerKind::Invited && link.is_asking) return;
  const bool is_starting = !link.is_asking && !link.is_dismissed && !link.rank && !link.outcome;
  if (answer.kind == AnswerKind::End && is_starting) unneeded_.push_back(worker);
  link.is_quitting = false;
  link.is_asking = answer.kind == AnswerKind::Wait;
  link.is_dismissed = answer.kind == AnswerKind::End;
  if (link.is_asking) link.request = {.port = link.request.port};  // without a state
  const auto text = encode(answer);
  if (link.socket.is_open() &&
      ::send(link.socket.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
    disconnect(worker);
}

void GroupLinks::handle(const GroupState& state) {
  world_size_ = state.world_size;
  if (state.job) group_ = state.job->group;
  // Nothing that was sent before a worker was started again.
  const auto is_meant = [&](int worker) {
    const auto i = static_cast<size_t>(worker);
    const int num_starts = i < state.starts.size() ? state.starts[i] : 0;
    return i < links_.size() && num_starts == links_[i].num_starts;
  };
  for (int i = 0; i < static_cast<int>(state.ranks.size()); ++i) {
    const int rank = state.ranks[static_cast<size_t>(i)];
    if (is_meant(i))
      links_[static_cast<size_t>(i)].rank = rank < 0 ? std::nullopt : std::optional(rank);
  }
  for (const int worker : state.replaced)
    if (is_meant(worker)) links_[static_cast<size_t>(worker)].is_replaced = true;
  for (const auto& [worker, answer_] : state.answers)
    if (is_meant(worker)) answer(worker, answer_);
  changed_ = true;
}

void GroupLinks::lose(int worker, const std::string& how) {
  end(worker, {.kind = GroupEvent::Kind::Killed, .worker = worker, .how = how});
}

void GroupLinks::leave(int worker) {
  end(worker, {.kind = GroupEvent::Kind::Exited, .worker = worker});
}

void GroupLinks::end(int worker, GroupEvent outcome) {
  auto& link = links_[static_cast<size_t>(worker)];
  link.rank.reset();
  link.outcome = outcome;
  changed_ = true;
  events_.push_back(std::move(outcome));
}

std::vector<GroupEvent> GroupLinks::all_events() const {
  std::vector<GroupEvent> events;
  for (size_t i = 0; i < links_.size(); ++i) {
    const auto& link = links_[i];
    const auto worker = static_cast<int>(i);
    if (link.num_starts > 0)
      events.push_back(
          {.kind = GroupEvent::Kind::Started, .worker = worker, .num_starts = link.num_starts});
    if (link.is_asking && !link.outcome)
      events.push_back(
          {.kind = GroupEvent::Kind::Requested, .worker = worker, .request = link.request});
    if (link.is_quitting && !link.outcome)
      events.push_back({.kind = GroupEvent::Kind::Requested,
                        .worker = worker,
                        .request = {.kind = GroupRequest::Kind::Quitting}});
    if (!link.socket.is_open())
      events.push_back({.kind = GroupEvent::Kind::Disconnected, .worker = worker});
    if (link.outcome) events.push_back(*link.outcome);
  }
  return events;
}

void GroupLinks::report_loss() {
  for (size_t i = 0; i < links_.size(); ++i)
    if (links_[i].rank && links_[i].loss.is_open())
      answer(static_cast<int>(i), {.kind = AnswerKind::Lost, .group = group_});
}

void GroupLinks::stop() { events_.push_back({.kind = GroupEvent::Kind::Stopping}); }

void GroupLinks::refuse_all() {
  refuses_ = true;
  for (size_t i = 0; i < links_.size(); ++i) {
    auto& link = links_[i];
    if (link.is_asking)
      answer(static_cast<int>(i), {.kind = link.rank ? AnswerKind::Refused : AnswerKind::End});
  }
}

bool GroupLinks::asks_to_leave(int worker) const {
  using enum GroupRequest::Kind;
  const auto& link = links_[static_cast<size_t>(worker)];
  const auto kind = link.request.kind;
  return link.is_quitting ||
         (link.is_asking && (kind == Leaving || kind == Replaced || kind == Excluded));
}

std::optional<int> GroupLinks::rank_of(int worker) const {
  return links_[static_cast<size_t>(worker)].rank;
}

}  // namespace lockstep::launch
