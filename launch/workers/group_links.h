// The connections of a launcher to its workers with --on-rank-loss continue, which the coordinator
// answers (launch/rendezvous/regrouping.h). Thread: the launcher's.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/system/file_descriptor.h"
#include "core/system/poll_set.h"
#include "launch/environment/node_place.h"
#include "launch/protocol/group_messages.h"

namespace lockstep::launch {

class GroupLinks {
 public:
  // Workers are numbered: 0 to num_ranks - 1 are the node's ranks of the first group (unless
  // place.joins), the others spares. Throws Environment.
  GroupLinks(const NodePlace& place, int num_ranks, int num_spares);

  // What the worker inherits; the caller closes it once the worker has started.
  FileDescriptor take_worker_end(int worker);
  // The sum of what is written to it is the number of the newest group that has lost a rank, plus 1. -1
  // with one node.
  int loss_fd(int worker) const { return links_[static_cast<size_t>(worker)].loss.get(); }

  void watch(PollSet& polls);
  // Receives requests. Call after each poll.
  void update();
  // For the coordinator, since the last call.
  std::vector<GroupEvent> take_events() { return std::exchange(events_, {}); }
  // From the coordinator.
  void handle(const GroupState& state);

  // The worker, which was lost, is started again, as a spare: it has a new end, and nothing of what the
  // coordinator sent before concerns it. Throws Environment; then nothing has changed.
  void start_again(int worker);
  // Whether the last answer to it was that it is not needed: it left, or the job has ended.
  bool is_dismissed(int worker) const { return links_[static_cast<size_t>(worker)].is_dismissed; }
  // Whether it waits for an answer to a request to leave.
  bool asks_to_leave(int worker) const;

  // Workers to kill, since the last call.
  std::vector<int> take_overdue() { return std::exchange(overdue_, {}); }
  // Workers that are not needed, but do not know it: they have not asked yet, since they are being
  // started. Since the last call.
  std::vector<int> take_unneeded() { return std::exchange(unneeded_, {}); }

  // The worker was killed; `how`: "killed by SIGKILL". It exited by itself. The node stops its workers.
  void lose(int worker, const std::string& how);
  void leave(int worker);
  void stop();
  // The coordinator does not answer any more: workers are refused from now on.
  void refuse_all();

  // For a coordinator that replaces the last one: what has happened to the workers so far.
  std::vector<GroupEvent> all_events() const;
  // A rank of the group was lost with its node, which the coordinator cannot report.
  void report_loss();

  // Rank in the current group; nullopt for spares, and for workers that have ended.
  std::optional<int> rank_of(int worker) const;
  int world_size() const { return world_size_; }
  // Whether the others have continued without a lost worker.
  bool is_replaced(int worker) const { return links_[static_cast<size_t>(worker)].is_replaced; }
  // Whether ranks have changed since the last call.
  bool take_changed() { return std::exchange(changed_, false); }

 private:
  struct Link {
    FileDescriptor socket, worker_end;
    FileDescriptor loss;      // eventfd
    int64_t lost_groups = 0;  // sum of what was written to it
    bool is_readable = false, is_asking = false, is_replaced = false, is_dismissed = false;
    int num_starts = 0;        // after the first one
    bool is_quitting = false;  // while it is asking
    std::optional<int> rank;
    GroupRequest request;               // the last one
    std::optional<GroupEvent> outcome;  // of a worker that has ended
  };

  Link open_link() const;
  void receive(int worker);
  void disconnect(int worker);
  void end(int worker, GroupEvent outcome);
  void answer(int worker, const GroupAnswer& answer);

  std::vector<Link> links_;
  const bool has_nodes_;
  int world_size_;
  int64_t group_ = 0;  // the current one
  bool refuses_ = false, changed_ = false;
  std::vector<GroupEvent> events_;
  std::vector<int> overdue_, unneeded_;
};

}  // namespace lockstep::launch
