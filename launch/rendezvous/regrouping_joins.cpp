// Workers that join a group of ranks which is smaller than at first: those of a node that comes back, those that
// are started again, and spares that were not ready at the loss.
#include <algorithm>
#include <bit>

#include "launch/rendezvous/regrouping.h"

namespace lockstep::launch {

using Kind = GroupAnswer::Kind;

bool Regrouping::can_add_node(int node) const {
  return !is_stopping_ && lost_.empty() && has_members() &&
         std::ranges::none_of(members_, [node](const auto& member) {
           return member.node == node && member.is_alive;
         });
}

void Regrouping::add_node(int node, const std::string& address) {
  nodes_[static_cast<size_t>(node)].address = address;
  for (auto& member : members_)
    if (member.node == node) {
      member = {};
      member.node = node;
    }
  changed_ = true;
}

void Regrouping::start_again(int number, int num_starts) {
  auto& member = members_[static_cast<size_t>(number)];
  if (num_starts <= member.num_starts) return;
  const int node = member.node;
  member = {};
  member.node = node;
  member.num_starts = num_starts;
  if (is_stopping_) answer(member, {.kind = Kind::End});
  changed_ = true;
}

void Regrouping::dismiss_node(int node) {
  for (auto& member : members_) {
    if (member.node != node || !member.is_alive || member.rank) continue;
    answer(member, {.kind = Kind::End});
    member.is_connected = false;
  }
}

// Whether the workers that wait make the next group larger.
bool Regrouping::can_grow() const {
  const auto count = std::ranges::count_if(members_, [](const auto& member) {
    return member.is_alive && member.is_connected && (member.rank || member.asked);
  });
  const auto num_ranks = std::bit_floor(
      static_cast<unsigned>(std::min(count, static_cast<std::ptrdiff_t>(max_ranks_))));
  return has_members() && static_cast<int>(num_ranks) > world_size_;
}

// All ranks of the group have to ask first.
void Regrouping::grow(Clock::time_point now) {
  broken_since_.reset();
  if (all_have_asked()) return form_group();
  invite();
  kill_overdue(now);
}

// The ranks ask for places in the larger group after a step.
void Regrouping::invite() {
  if (std::exchange(is_invited_, true)) return;
  for (auto& member : members_)
    if (member.is_in_group() && !member.asked && member.is_connected)
      answers_.push_back({static_cast<int>(&member - members_.data()), {.kind = Kind::Invited}});
}

// A group that grew has failed before its first step, without a loss: those by which it grew cannot reach
// the others (a firewall), or are stopped. If all ask, the same group is tried once more. Then the others
// continue without the new ones, which are killed. Returns whether to wait for the new ones to ask.
bool Regrouping::waits_for_new(Clock::time_point now) {
  bool some_are_new = false, all_new_ask = true;
  for (const auto& member : members_) {
    if (!member.is_in_group()) continue;
    const bool fails =
        member.asks_to(GroupRequest::Kind::Broken) && member.asked->step <= group_step_;
    if (!member.is_new && !fails) return false;
    some_are_new = some_are_new || member.is_new;
    all_new_ask = all_new_ask && fails;
  }
  if (!some_are_new || (all_new_ask && num_repeats_ == 0)) return false;
  if (!broken_since_) broken_since_ = now;
  if (!all_new_ask && now - *broken_since_ < patience_) return true;
  for (auto& member : members_) {
    if (!member.is_in_group() || !std::exchange(member.is_new, false)) continue;
    lost_.push_back({*std::exchange(member.rank, std::nullopt),
                     "killed because the others could not form a group with it"});
    member.asked.reset();
    member.is_overdue = changed_ = true;
    answers_.push_back({static_cast<int>(&member - members_.data()), {.kind = Kind::Overdue}});
  }
  return false;
}

// Processes without a state that see other inputs than the ranks: the group would fail with them.
void Regrouping::dismiss_different() {
  for (auto& member : members_) {
    if (!member.is_alive || member.rank || !member.asked || member.asked->inputs == 0) continue;
    if (inputs_ != 0 && member.asked->inputs != inputs_) answer(member, {.kind = Kind::Differs});
  }
}

}  // namespace lockstep::launch
