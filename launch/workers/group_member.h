// The connection between a worker and its launcher with --on-rank-loss continue. A worker whose group
// of ranks is broken asks for its place in the next one; a spare asks when it is ready.
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

// The launcher's answer.
//   Join     a place in a new group
//   Wait     none for now: another answer follows
//   End      the job has ended without this worker
//   Refused  there is no new group: no rank was lost, or the workers are being stopped
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

  // Asks for a place and waits for it: for at most `timeout` for the first answer, and after Wait
  // for as long as the launcher runs. `step`: optimizer steps that this worker has completed, or
  // kNoState. `timeout`: nullopt: none. Returns Join, End, or Refused, also on timeout.
  GroupAnswer ask(int64_t step, std::optional<std::chrono::milliseconds> timeout);

 private:
  FileDescriptor fd_;
};

}  // namespace lockstep::launch
