// Which workers of a job form the group of ranks, with --on-rank-loss continue. When a worker of the
// group is killed, or lost with its node, the others ask for a place (launch/protocol/group_messages.h).
// Once all of them have asked, they and the spares form the next group: as many ranks as before or, if
// too few are left, the largest power of two. A worker that leaves after a step is let go first; if all
// would leave, all are refused. A slow worker is let go only if the others do as well or better without
// it; otherwise all of them are refused, and it keeps its place. A worker that does not ask in time is
// killed. Those with the most training steps get the lowest ranks, so rank 0 has the state that the
// others receive. The remaining workers wait as spares, without a state. When there are enough of them for
// a larger group, up to the first number of ranks, the ranks are invited to ask after a step. Pure: the
// caller delivers requests and answers. Thread: one.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "launch/protocol/group_messages.h"
#include "launch/protocol/job_state.h"

namespace lockstep::launch {

class Regrouping {
 public:
  struct Node {
    int num_ranks = 1, num_spares = 0;
    std::string address = "127.0.0.1";  // at which the other nodes reach it
  };
  struct Answer {
    int member = 0;
    GroupAnswer answer;
  };
  using Clock = std::chrono::steady_clock;

  // Members are numbered in the order of the nodes; on each, the ranks of the first group, then the
  // spares. `patience`: how long a broken group may wait until it is known which rank was lost; after
  // that its workers are refused.
  explicit Regrouping(std::vector<Node> nodes, std::chrono::milliseconds patience = {});

  int num_members(int node) const {
    const auto& of = nodes_[static_cast<size_t>(node)];
    return of.num_ranks + of.num_spares;
  }
  int first_member(int node) const;

  void ask(int member, const GroupRequest& request, Clock::time_point now = Clock::now());
  void disconnect(int member);  // the worker is gone, or about to end
  // Forms a group if that is possible. Call after the other functions, and every few seconds.
  void update(Clock::time_point now = Clock::now());
  std::vector<Answer> take_answers() { return std::exchange(answers_, {}); }

  // The worker was killed; `how`: "killed by SIGKILL". Returns false if it had a rank and no member of
  // the group is left to continue: the job has failed. No effect if that is known.
  bool lose(int member, const std::string& how);
  // All workers of the node that have not ended were lost. Returns false if no member of the group
  // would be left; then nothing changes.
  bool lose_node(int node, const std::string& how);
  // Whether the node was lost, and the others have continued: its place is free. add_node(): its workers
  // are started again, as spares; `address`: of the node. start_again(): a single one that was lost is,
  // for the `num_starts`-th time; no effect if that is known.
  bool can_add_node(int node) const;
  void add_node(int node, const std::string& address);
  void start_again(int member, int num_starts);
  int num_starts(int member) const { return members_[static_cast<size_t>(member)].num_starts; }
  void dismiss_node(int node);  // its workers that are not ranks do not become ranks
  bool has_members() const;     // whether the group has ranks
  // The worker exited by itself. When no member of the group is left, waiting workers learn that
  // the job has ended. Returns false if a lost rank has no group that continued without it then: the
  // job has failed.
  bool leave(int member);
  // No new group is formed: workers are being stopped.
  void stop();

  // For the coordinator that replaces this one. Requests are not part of it: workers repeat them.
  void save(JobState& state) const;
  // Continues from it. `state`: is_consistent(), with the nodes of the constructor. Call first.
  void restore(const JobState& state);

  // Rank in the current group; nullopt for spares, and for workers that have ended. Whether the others
  // have continued without a lost worker.
  std::optional<int> rank_of(int member) const;
  int world_size() const { return world_size_; }
  bool is_replaced(int member) const { return members_[static_cast<size_t>(member)].is_replaced; }

  // Since the last call: whether members have other ranks, or were replaced; messages for the user.
  bool take_changed() { return std::exchange(changed_, false); }
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Member {
    int node = 0;
    bool is_connected = true, is_alive = true;
    bool is_lost = false, is_replaced = false;
    bool has_left = false, has_quit = false;  // a group; while it waited for one
    bool was_ready = false;                   // as a spare
    bool is_kept = false;                     // although it was slow
    int num_starts = 0;                       // after the first one
    std::optional<int> rank;                  // in the current group
    std::optional<GroupRequest> asked;        // of a worker that waits for an answer
    Clock::time_point asked_at;
    bool is_overdue = false;  // it did not ask in time, and is being killed
    bool is_new = false;      // the current group grew by it

    bool is_in_group() const { return is_alive && rank.has_value(); }
    bool asks_to(GroupRequest::Kind kind) const {
      return is_in_group() && asked && asked->kind == kind;
    }
  };

  void answer(Member& member, const GroupAnswer& answer);
  bool remove_lost(Member& member, const std::string& how);
  void report_loss();
  bool all_have_asked() const;
  std::optional<Clock::time_point> deadline() const;
  void kill_overdue(Clock::time_point now);
  bool is_leaving_asked() const;
  bool is_letting_go() const;
  void decide_on_slow();
  bool can_do_without(const Member& slow) const;
  bool let_go();
  void refuse_unexplained(Clock::time_point now);
  bool can_form_again() const;
  bool is_broken() const;
  bool can_grow() const;
  void grow(Clock::time_point now);
  void invite();
  void dismiss_different();
  bool waits_for_new(Clock::time_point now);
  void form_group();
  std::vector<Member*> ready_members();
  int number_on_node(const Member& member) const;
  void refuse_members(bool only_broken = false);

  std::vector<Node> nodes_;
  const std::chrono::milliseconds patience_;
  std::optional<Clock::time_point> broken_since_;  // without a known loss
  std::vector<Member> members_;
  int max_ranks_ = 0, world_size_ = 0;
  int64_t group_ = 0, group_step_ = 0;  // number of the current one; step at which it was formed
  int num_repeats_ = 0;                 // of groups since the last loss
  bool is_invited_ = false;             // the ranks of this group, to form a larger one
  uint32_t inputs_ = 0;                 // of the ranks; 0: not known yet
  std::vector<Answer> answers_;
  std::vector<LostRank> lost_;  // of the ranks of the last group; also those that left
  bool is_stopping_ = false, changed_ = false;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
