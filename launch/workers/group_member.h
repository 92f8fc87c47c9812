// The connection between a worker and its launcher with --on-rank-loss continue. A worker whose group
// of ranks is broken asks for its place in the next one; a spare asks when it is ready. All workers of
// a group ask after the same step if one of them is to leave.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "core/rank_loss.h"
#include "core/system/file_descriptor.h"

namespace lockstep::launch {

// The step of a worker that has no training state: a spare.
inline constexpr int64_t kNoState = -1;

// What a worker asks for.
//   Broken    a place in another group, since a rank of this one may be lost; a spare: a place
//   Changing  the same, since a rank of this group leaves
//   Leaving   to leave the group
//   Quitting  to end, of a worker that waits for a place. Without effect if it has just got one
struct GroupRequest {
  enum class Kind { Broken, Changing, Leaving, Quitting };

  Kind kind = Kind::Broken;
  int64_t step = kNoState;  // optimizer steps that the worker has completed
};

std::string encode(const GroupRequest& request);
// nullopt if `text` is not a request.
std::optional<GroupRequest> decode_group_request(const std::string& text);

// The launcher's answer.
//   Join     a place in a new group
//   Wait     none for now: another answer follows. The others have at least the worker's state, which
//            it need not keep
//   End      the worker is not needed: the job has ended, or the worker may leave. The new group is
//            formed when it has closed the connection.
//   Refused  there is no new group: no rank was lost, all ranks would leave, or the workers are being
//            stopped
struct GroupAnswer {
  enum class Kind { Join, Wait, End, Refused };

  Kind kind = Kind::Refused;
  int rank = 0, world_size = 1;
  std::filesystem::path store;  // a new file, through which the ranks of the group connect
  RankLoss loss;                // why there is a new group
};

std::string encode(const GroupAnswer& answer);
// Refused if `text` is not an answer.
GroupAnswer decode_group_answer(const std::string& text);

// The worker's end. Thread: one.
class GroupMember {
 public:
  // `fd`: LOCKSTEP_GROUP_FD; closed on exec from now on.
  explicit GroupMember(int fd);

  // Asks and waits for the answer, for at most `timeout`; nullopt: as long as the launcher runs. Refused
  // on timeout. After Wait, call wait().
  GroupAnswer ask(const GroupRequest& request, std::optional<std::chrono::milliseconds> timeout);

  // The answer that follows Wait: Join, End or Refused. Waits for as long as the launcher runs.
  GroupAnswer wait();

  // `fd`: readable from the time on when a worker without a place is to end: a spare, or one that was
  // answered Wait. It then asks the launcher for that. Outlives this.
  void quit_when_readable(int fd) { quit_fd_ = fd; }

 private:
  bool send(const GroupRequest& request) const;
  GroupAnswer receive(std::optional<std::chrono::milliseconds> timeout, bool may_quit);

  FileDescriptor fd_;
  int quit_fd_ = -1;             // -1: none
  bool is_answer_late_ = false;  // of a request that timed out
};

}  // namespace lockstep::launch
