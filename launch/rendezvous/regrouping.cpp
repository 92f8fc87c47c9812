#include "launch/rendezvous/regrouping.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <map>
#include <tuple>

namespace lockstep::launch {

using Kind = GroupAnswer::Kind;

namespace {

constexpr int kMaxRepeats = 3;  // of a group that does not connect, without a loss

double unix_seconds() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

Regrouping::Regrouping(std::vector<Node> nodes, std::chrono::milliseconds patience)
    : nodes_(std::move(nodes)), patience_(patience) {
  for (size_t node = 0; node < nodes_.size(); ++node)
    for (int i = 0; i < num_members(static_cast<int>(node)); ++i) {
      auto& member = members_.emplace_back();
      member.node = static_cast<int>(node);
      if (i < nodes_[node].num_ranks) member.rank = world_size_++;
    }
  max_ranks_ = world_size_;
}

int Regrouping::first_member(int node) const {
  int first = 0;
  for (int i = 0; i < node; ++i) first += num_members(i);
  return first;
}

int Regrouping::number_on_node(const Member& member) const {
  return static_cast<int>(&member - members_.data()) - first_member(member.node);
}

void Regrouping::ask(int number, const GroupRequest& request, Clock::time_point now) {
  auto& member = members_[static_cast<size_t>(number)];
  if (member.is_overdue) return;
  if (request.kind != GroupRequest::Kind::Quitting) {
    member.asked = request;
    member.asked_at = now;
    if (request.step == kNoState && !member.rank && !std::exchange(member.was_ready, true)) {
      // One that was started again is reported when it joins.
      if (member.num_starts == 0 || !can_grow()) notes_.emplace_back("a spare is ready");
      changed_ = true;  // so that another coordinator does not report it again
    }
    if (member.rank && request.inputs != 0) inputs_ = request.inputs;
  } else if (!member.rank && member.asked) {
    member.has_quit = true;
    if (!is_stopping_) notes_.emplace_back("a spare left after SIGTERM");
    answer(member, {.kind = Kind::End});
  }
}

void Regrouping::disconnect(int member) {
  members_[static_cast<size_t>(member)].is_connected = false;
}

void Regrouping::answer(Member& member, const GroupAnswer& answer) {
  if (answer.kind == Kind::Wait)
    member.asked =
        GroupRequest{.port = member.asked ? member.asked->port : 0};  // it drops its state
  else
    member.asked.reset();
  if (member.is_connected)
    answers_.push_back({static_cast<int>(&member - members_.data()), answer});
}

// So that the others do not wait for what a node without connection would send.
void Regrouping::report_loss() {
  if (nodes_.size() == 1) return;
  for (auto& member : members_)
    if (member.is_in_group() && !member.asked && member.is_connected)
      answers_.push_back(
          {static_cast<int>(&member - members_.data()), {.kind = Kind::Lost, .group = group_}});
}

bool Regrouping::has_members() const { return std::ranges::any_of(members_, &Member::is_in_group); }

bool Regrouping::all_have_asked() const {
  return std::ranges::all_of(members_, [](const auto& member) {
    return !member.is_in_group() || member.asked.has_value();
  });
}

// Until which all workers of the group have to ask; nullopt: there is no limit.
std::optional<Regrouping::Clock::time_point> Regrouping::deadline() const {
  std::optional<Clock::time_point> deadline;
  for (const auto& member : members_) {
    if (!member.is_in_group() || !member.asked || member.asked->patience_ms == 0) continue;
    const auto own = member.asked_at + std::chrono::milliseconds(member.asked->patience_ms);
    deadline = std::min(deadline.value_or(own), own);
  }
  return deadline;
}

// For workers that are stopped, or hang outside of a collective, the others do not wait forever.
void Regrouping::kill_overdue(Clock::time_point now) {
  const auto until = deadline();
  if (!until || now < *until) return;
  std::chrono::duration<double> waited{};
  for (const auto& member : members_)
    if (member.is_in_group() && member.asked)
      waited = std::max<std::chrono::duration<double>>(waited, now - member.asked_at);
  for (auto& member : members_) {
    if (!member.is_in_group() || member.asked || std::exchange(member.is_overdue, true)) continue;
    answers_.push_back({static_cast<int>(&member - members_.data()), {.kind = Kind::Overdue}});
    notes_.push_back(
        fmt::format("rank {} (of {}) is killed: the others have waited for it for {:.0f} s to "
                    "form a new group",
                    *member.rank, world_size_, waited.count()));
  }
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

void Regrouping::update(Clock::time_point now) {
  if (is_stopping_ && !is_letting_go()) return refuse_members();
  dismiss_different();
  if (all_have_asked()) decide_on_slow();
  if (lost_.empty() && !is_leaving_asked()) {
    if (can_grow() && !is_broken()) return grow(now);
    if (waits_for_new(now)) return;
    if (lost_.empty()) {
      if (!can_form_again()) return refuse_unexplained(now);
      if (!all_have_asked()) return kill_overdue(now);
      ++num_repeats_;
      return form_group();
    }
  }
  broken_since_.reset();
  if (!all_have_asked()) return kill_overdue(now);
  if (let_go()) form_group();
}

// Afterwards, those that go leave like others, and those that keep their places ask like others.
void Regrouping::decide_on_slow() {
  for (auto& member : members_) {
    const bool is_replaced = member.asks_to(GroupRequest::Kind::Replaced);
    if (!is_replaced && !member.asks_to(GroupRequest::Kind::Excluded)) continue;
    const bool goes = can_do_without(member);
    member.asked->kind = goes ? GroupRequest::Kind::Leaving : GroupRequest::Kind::Changing;
    if (goes || std::exchange(member.is_kept, true)) continue;
    notes_.push_back(fmt::format(
        "rank {} (of {}) takes {:.3g} times as long per step as the other ranks, but keeps its "
        "place: {}",
        *member.rank, world_size_, member.asked->slowness,
        is_replaced ? "no spare is ready" : "without it, the other ranks would not be faster"));
  }
}

// Whether the next group has as many ranks without the slow worker or, if it may be excluded, needs
// less time per step: the others then do its part as well.
bool Regrouping::can_do_without(const Member& slow) const {
  unsigned num_others = 0;
  bool has_state = false;
  for (const auto& other : members_) {
    if (&other == &slow || !other.is_alive || !other.asked || !other.is_connected ||
        other.asks_to(GroupRequest::Kind::Leaving))
      continue;
    ++num_others;
    has_state = has_state || other.rank;
  }
  if (!has_state) return false;
  const auto count = std::bit_floor(std::min(num_others, static_cast<unsigned>(max_ranks_)));
  if (static_cast<int>(count) >= world_size_) return true;
  return slow.asked->kind == GroupRequest::Kind::Excluded &&
         count * slow.asked->slowness > world_size_;
}

// Whether a rank has asked because its group has failed.
bool Regrouping::is_broken() const {
  return std::ranges::any_of(
      members_, [](const auto& member) { return member.asks_to(GroupRequest::Kind::Broken); });
}

// Workers of other nodes may notice a loss before the launcher of the lost rank has reported it.
void Regrouping::refuse_unexplained(Clock::time_point now) {
  is_invited_ = false;
  if (!is_broken())
    broken_since_.reset();
  else if (!broken_since_)
    broken_since_ = now;
  if (broken_since_ && now - *broken_since_ < patience_) return;
  // The workers of a group that one of them leaves do not ask at the same time.
  refuse_members(/*only_broken=*/!all_have_asked());
}

// Whether a new group has failed before its first step, as when a rank is too slow to connect. The others have
// asked; that rank will, or is killed when they have waited for it.
bool Regrouping::can_form_again() const {
  return group_ > 0 && num_repeats_ < kMaxRepeats && is_broken() &&
         std::ranges::all_of(members_, [this](const auto& member) {
           return !member.is_in_group() || !member.asked ||
                  (member.asks_to(GroupRequest::Kind::Broken) && member.asked->step <= group_step_);
         });
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
    const auto how = member.asked->slowness > 0
                         ? fmt::format("taking {:.3g} times as long per step as the other ranks",
                                       member.asked->slowness)
                         : std::string("SIGTERM");
    lost_.push_back({*std::exchange(member.rank, std::nullopt), how, /*has_left=*/true});
    member.has_left = true;
    answer(member, {.kind = Kind::End});
  }
  return std::ranges::none_of(members_, [](const auto& member) {
    return member.has_left && member.is_alive && member.is_connected;
  });
}

// Those that can be in the next group, in the order of their ranks in it.
std::vector<Regrouping::Member*> Regrouping::ready_members() {
  std::vector<Member*> ready;
  for (auto& member : members_)
    if (member.is_alive && member.asked && member.is_connected) ready.push_back(&member);
  std::ranges::stable_sort(ready, {}, [](const Member* member) {
    return std::tuple(-member->asked->step, !member->rank.has_value(), member->rank.value_or(0));
  });
  return ready;
}

void Regrouping::form_group() {
  const auto ready = ready_members();
  if (ready.empty() || ready.front()->asked->step == kNoState) return stop();
  const auto count = std::bit_floor(
      std::min(static_cast<unsigned>(ready.size()), static_cast<unsigned>(max_ranks_)));
  RankLoss loss{.step = ready.front()->asked->step,
                .before = world_size_,
                .after = static_cast<int>(count),
                .ranks = std::exchange(lost_, {}),
                .spares = {},
                .time = unix_seconds()};
  std::map<int, int> local_world_sizes, local_ranks;  // by node
  for (size_t i = 0; i < count; ++i) {
    ++local_world_sizes[ready[i]->node];
    if (ready[i]->rank) continue;
    loss.spares.push_back(number_on_node(*ready[i]));
    if (nodes_.size() > 1) loss.spare_nodes.push_back(ready[i]->node);
  }
  world_size_ = loss.after;
  ++group_;
  loss.group = group_;
  group_step_ = loss.step;
  if (!loss.is_empty()) num_repeats_ = 0;
  is_invited_ = false;
  for (auto& member : members_) {
    member.is_replaced = member.is_lost;
    if (!loss.is_empty()) member.is_new = false;
  }
  const auto& host = nodes_[static_cast<size_t>(ready.front()->node)].address;
  const auto port = ready.front()->asked->port;
  for (size_t i = 0; i < ready.size(); ++i) {
    const bool joins = i < count;
    const auto node = ready[i]->node;
    if (joins && !ready[i]->rank) ready[i]->is_new = loss.ranks.empty();
    ready[i]->rank = joins ? std::optional(static_cast<int>(i)) : std::nullopt;
    answer(*ready[i], {.kind = joins ? Kind::Join : Kind::Wait,
                       .group = group_,
                       .rank = static_cast<int>(i),
                       .world_size = world_size_,
                       .local_rank = joins ? local_ranks[node]++ : 0,
                       .local_world_size = joins ? local_world_sizes[node] : 1,
                       .host = host,
                       .port = port,
                       .loss = loss});
  }
  const auto waiting = ready.size() - count;
  const auto reason = loss.is_empty() ? "not all ranks have connected" : lost_text(loss);
  notes_.push_back(fmt::format("{}: continuing with {} rank{}{}", reason, count,
                               count == 1 ? "" : "s",
                               waiting > 0 ? fmt::format(", {} waiting as spare", waiting) : ""));
  changed_ = true;
}

bool Regrouping::lose(int number, const std::string& how) {
  auto& member = members_[static_cast<size_t>(number)];
  if (!member.is_alive) return true;
  const bool had_rank = member.rank.has_value();
  const auto cause = member.is_overdue ? "killed because the others waited for it" : how;
  if (!remove_lost(member, cause)) return false;
  if (had_rank) report_loss();
  return true;
}

bool Regrouping::remove_lost(Member& member, const std::string& how) {
  changed_ = true;
  member.is_alive = false;
  member.asked.reset();
  const auto rank = std::exchange(member.rank, std::nullopt);
  if (rank && !has_members()) {
    stop();
    return false;
  }
  member.is_lost = true;
  member.is_replaced = !rank;
  if (rank) {
    lost_.push_back({*rank, how});
  } else if (!member.has_left && !member.has_quit && !member.is_overdue && !is_stopping_) {
    notes_.push_back(fmt::format("a spare was lost, {}", how));
  }
  return true;
}

bool Regrouping::lose_node(int node, const std::string& how) {
  const auto is_there = [&](const Member& member) {
    return member.node == node && member.is_alive;
  };
  const bool others_stay = std::ranges::any_of(
      members_, [&](const Member& member) { return member.node != node && member.is_in_group(); });
  if (!others_stay) return false;
  bool had_ranks = false;
  changed_ = true;
  for (auto& member : members_) {
    if (!is_there(member)) continue;
    member.is_connected = false;
    had_ranks = had_ranks || member.rank;
    remove_lost(member, how);
  }
  if (had_ranks) report_loss();
  return true;
}

bool Regrouping::leave(int number) {
  auto& member = members_[static_cast<size_t>(number)];
  changed_ = true;
  member.is_alive = false;
  member.asked.reset();
  member.rank.reset();
  if (has_members()) return true;
  stop();
  return std::ranges::none_of(members_,
                              [](const auto& any) { return any.is_lost && !any.is_replaced; });
}

void Regrouping::stop() {
  if (std::exchange(is_stopping_, true)) return;
  if (!is_letting_go()) refuse_members();
  for (auto& member : members_) {
    if (!member.rank) answer(member, {.kind = Kind::End});
    // So that its launcher does not start it again after a pause.
    if (member.is_lost && !member.is_connected)
      answers_.push_back({static_cast<int>(&member - members_.data()), {.kind = Kind::End}});
  }
}

std::optional<int> Regrouping::rank_of(int number) const {
  const auto& member = members_[static_cast<size_t>(number)];
  return member.is_alive ? member.rank : std::nullopt;
}

}  // namespace lockstep::launch
