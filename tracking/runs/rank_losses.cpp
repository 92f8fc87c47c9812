#include "tracking/runs/rank_losses.h"

#include <algorithm>
#include <utility>

#include "core/bounded_json.h"
#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"
#include "tracking/runs/run_directory.h"

namespace lockstep::tracking {
namespace {

constexpr double kMaxClockDifference_s = 5;  // between nodes

std::filesystem::path rank_losses_path(const std::filesystem::path& run_dir) {
  return run_dir / "rank_losses.json";
}

}  // namespace

bool is_recorded(const std::filesystem::path& run_dir, const RankLoss& loss) {
  return std::ranges::any_of(
      read_rank_losses(run_dir),
      [sought = to_json(loss)](const RankLoss& earlier) { return to_json(earlier) == sought; });
}

bool is_logged(const std::filesystem::path& run_dir, const RankLoss& loss) {
  const auto log = event_log_path(run_dir, 0);
  try {
    uint32_t segment = 0;
    while (const auto next = next_segment(log, segment)) segment = next->beginning.number;
    const auto texts = read_log_segment(segment_path(log, segment)).texts;
    const auto earliest = loss.time - kMaxClockDifference_s;
    return std::ranges::any_of(texts, [&, line = describe(loss)](const TextLine& text) {
      return text.time >= earliest && text.line == line;
    });
  } catch (const Error&) {
    return false;
  }
}

void record_rank_loss(const std::filesystem::path& run_dir, const RankLoss& loss) {
  if (is_recorded(run_dir, loss)) return;
  auto list = Json::array();
  for (const auto& earlier : read_rank_losses(run_dir)) list.push_back(to_json(earlier));
  list.push_back(to_json(loss));
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
