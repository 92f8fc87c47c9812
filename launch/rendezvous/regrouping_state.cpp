// What a coordinator that replaces another one takes over from it.
#include "launch/rendezvous/regrouping.h"

namespace lockstep::launch {

void Regrouping::save(JobState& state) const {
  state.group = group_;
  state.group_step = group_step_;
  state.world_size = world_size_;
  state.losses.clear();
  for (const auto& [rank, how, has_left] : lost_) state.losses.push_back({rank, how, has_left});
  state.ranks.clear();
  state.flags.clear();
  state.starts.clear();
  for (const auto& member : members_) {
    state.ranks.push_back(member.rank.value_or(-1));
    state.starts.push_back(member.num_starts);
    state.flags.push_back(
        (member.is_alive ? JobState::Alive : 0) | (member.is_connected ? JobState::Connected : 0) |
        (member.is_lost ? JobState::Lost : 0) | (member.is_replaced ? JobState::Replaced : 0) |
        (member.has_left ? JobState::HasLeft : 0) | (member.has_quit ? JobState::HasQuit : 0) |
        (member.was_ready ? JobState::WasReady : 0));
  }
}

void Regrouping::restore(const JobState& state) {
  group_ = state.group;
  group_step_ = state.group_step;
  world_size_ = state.world_size;
  lost_.clear();
  for (const auto& [rank, how, has_left] : state.losses) lost_.push_back({rank, how, has_left});
  for (size_t i = 0; i < members_.size(); ++i) {
    auto& member = members_[i];
    const auto has = [flags = state.flags[i]](JobState::Flag flag) { return (flags & flag) != 0; };
    if (state.ranks[i] >= 0)
      member.rank = state.ranks[i];
    else
      member.rank.reset();
    member.is_alive = has(JobState::Alive);
    member.is_connected = has(JobState::Connected);
    member.is_lost = has(JobState::Lost);
    member.is_replaced = has(JobState::Replaced);
    member.has_left = has(JobState::HasLeft);
    member.has_quit = has(JobState::HasQuit);
    member.was_ready = has(JobState::WasReady);
    member.num_starts = state.starts[i];
  }
  changed_ = true;
}

}  // namespace lockstep::launch
