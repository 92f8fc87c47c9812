// Ranks that were lost, left or joined, and the group of ranks that continued (launch --on-rank-loss
// continue): made by the launcher, recorded by the trainer, shown by `lockstep runs show`.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep {

struct LostRank {
  int rank = 0;           // in the group before
  std::string how;        // "killed by SIGKILL"; the signal after which it left
  bool has_left = false;  // it left between two steps
};

struct RankLoss {
  int64_t group = 0;                  // the number of the group that continues, from 1
  int64_t step = 0;                   // the last that the others had completed
  int before = 1, after = 1;          // number of ranks
  std::vector<LostRank> ranks;        // empty: only spares joined
  std::vector<int> spares;            // that joined: the numbers of their processes on their nodes
  std::vector<int> spare_nodes = {};  // with several nodes: the node of each spare
  double time = 0;                    // of the launcher's decision, Unix time, seconds

  bool is_empty() const { return ranks.empty() && spares.empty(); }
};

// "rank 1 (of 4) was lost, killed by SIGKILL; rank 2 (of 4) left after SIGTERM"; "2 ranks joined".
std::string lost_text(const RankLoss& loss);
// One line: lost_text(), and with which ranks the others continued.
std::string describe(const RankLoss& loss);

Json to_json(const RankLoss& loss);
// nullopt if `json` is not a loss.
std::optional<RankLoss> rank_loss_from_json(const Json& json);

}  // namespace lockstep
