// The ranks that a run lost and continued without: <run>/rank_losses.json, a list in the order of
// their steps. Written by the trainer's main rank.
#pragma once

#include <filesystem>
#include <vector>

#include "core/rank_loss.h"

namespace lockstep::tracking {

// Whether the list has this loss, as it does if the new group then lost another rank.
bool is_recorded(const std::filesystem::path& run_dir, const RankLoss& loss);

// Whether the last segment of rank 0's event log contains describe(loss) as a text, written at loss.time
// or later (clocks may differ by 5 s). Reads that segment. A rank 0 that is killed while it records a
// loss may have written only this text. False if it cannot be read.
bool is_logged(const std::filesystem::path& run_dir, const RankLoss& loss);

// Appends to the list, atomically, unless it has this loss already. Throws Environment.
void record_rank_loss(const std::filesystem::path& run_dir, const RankLoss& loss);

// Empty if there are none; entries that cannot be read are skipped.
std::vector<RankLoss> read_rank_losses(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
