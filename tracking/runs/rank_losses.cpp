#include "tracking/runs/rank_losses.h"

#include <algorithm>
#include <utility>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

std::filesystem::path rank_losses_path(const std::filesystem::path& run_dir) {
  return run_dir / "rank_losses.json";
}

}  // namespace

void record_rank_loss(const std::filesystem::path& run_dir, const RankLoss& loss) {
  auto list = Json::array();
  for (const auto& earlier : read_rank_losses(run_dir)) list.push_back(to_json(earlier));
  auto added = to_json(loss);
  if (std::ranges::find(list, added) != list.end()) return;
  list.push_back(std::move(added));
  write_file_durably(rank_losses_path(run_dir),
                     list.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::vector<RankLoss> read_rank_losses(const std::filesystem::path& run_dir) {
  const auto path = rank_losses_path(run_dir);
  std::error_code ignored;
  std::vector<RankLoss> losses;
  if (!std::filesystem::exists(path, ignored)) return losses;
  try {
    const auto list = parse_json(read_file(path));
    if (!list.is_array()) return losses;
    for (const auto& item : list)
      if (auto loss = rank_loss_from_json(item)) losses.push_back(std::move(*loss));
  } catch (const Error&) {
    // It cannot be read: the log of the run contains the same.
  }
  return losses;
}

}  // namespace lockstep::tracking
