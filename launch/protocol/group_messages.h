// What workers and the coordinator send each other about groups of ranks, with --on-rank-loss continue.
// The launcher of a node forwards it. A worker whose group is broken requests its place in the next
// one; a spare requests one when it is ready. All workers of a group do after the same step if one of
// them is to leave.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/rank_loss.h"
#include "launch/protocol/job_state.h"

namespace lockstep::launch {

// The step of a worker that has no training state: a spare.
inline constexpr int64_t kNoState = -1;

// What a worker requests.
//   Broken    a place in another group, since a rank of this one may be lost; a spare: a place
//   Changing  the same, since a rank of this group leaves, or others are to join
//   Leaving   to leave the group, after SIGTERM
//   Replaced  to leave the group, since it is slow, if a spare can take its place
//   Excluded  the same; without a spare too, if the others need less time per step on their own
//   Quitting  to end, of a worker that waits for a place. Without effect if it has just got one
struct GroupRequest {
  enum class Kind { Broken, Changing, Leaving, Replaced, Excluded, Quitting };

  Kind kind = Kind::Broken;
  int64_t step = kNoState;  // optimizer steps that the worker has completed
  int port = 0;             // where it listens for the others, if it becomes rank 0
  double slowness = 0;      // of a slow one: its time per step, divided by that of the others
  // How long it permits the others to take until they request a place, too; 0: any time.
  int64_t patience_ms = 0;
  uint32_t inputs = 0;  // checksum of the run file and the data that the worker sees; 0: not known
};

std::string encode(const GroupRequest& request);
// nullopt if `text` is not a request.
std::optional<GroupRequest> decode_group_request(const std::string& text);

// The coordinator's answer.
//   Join     a place in a new group
//   Wait     none for now: another answer follows. The others have at least the worker's state, which
//            it need not keep
//   End      the worker is not needed: the job has ended, or the worker may leave. The new group is
//            formed when it has closed the connection.
//   Refused  there is no new group: no rank was lost, all ranks would leave, a slow one keeps its
//            place, or the workers are being stopped
//   Lost     not an answer: a rank of the worker's group was lost. For groups on several nodes, where
//            a lost rank may close no connection
//   Overdue  not an answer: the worker has not requested a place while the others waited for it. Its
//            launcher kills it
//   Invited  not an answer: with the workers that wait, there can be more ranks. Those of the group
//            request another place after a step (Changing)
//   Differs  the worker has no state, and other inputs than the ranks: it ends with an error
struct GroupAnswer {
  enum class Kind { Join, Wait, End, Refused, Lost, Overdue, Invited, Differs };

  Kind kind = Kind::Refused;
  int64_t group = 0;  // Join: the number of the new one, from 1; Lost: of the one that lost a rank
  int rank = 0, world_size = 1;
  int local_rank = 0, local_world_size = 1;  // of this rank, on its node
  std::string host;                          // address of rank 0, through which the ranks connect
  int port = 0;
  RankLoss loss;  // why there is a new group; no ranks or spares: the last one could not connect
};

std::string encode(const GroupAnswer& answer);
// Refused if `text` is not an answer.
GroupAnswer decode_group_answer(const std::string& text);

// What happens on a node.
//   Requested     by a worker
//   Disconnected  a worker has closed its connection to the launcher
//   Killed        by a signal; `how`: "killed by SIGKILL"
//   Exited        by itself
//   Stopping      the node stops its workers; `worker` is not used
//   Started       a worker that was lost is started again, as a spare
struct GroupEvent {
  enum class Kind { Requested, Disconnected, Killed, Exited, Stopping, Started };

  Kind kind = Kind::Requested;
  int worker = 0;  // on the node: the ranks of its first group, then its spares
  GroupRequest request = {};
  std::string how = {};
  int num_starts = 0;  // Started: of the worker in this attempt, without the first one
};

struct WorkerAnswer {
  int worker = 0;
  GroupAnswer answer;
};

// To a node: answers to its workers, and what they are afterwards.
struct GroupState {
  std::vector<WorkerAnswer> answers;
  int world_size = 1;
  std::vector<int> ranks;     // of each worker; -1: none
  std::vector<int> replaced;  // lost workers without which the others have continued
  // Of each worker, as in GroupEvent: a worker that was started more often has nothing in this message.
  std::vector<int> starts = {};
  std::optional<JobState> job = {};  // with several nodes
};

}  // namespace lockstep::launch
