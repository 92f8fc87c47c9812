#include "trainer/checkpoint/saving.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <utility>

#include "core/error.h"
#include "core/system/own_priority.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep {
namespace {

// Writing less takes next to no processor time, and training that waits for it must not wait for
// strangers that have a higher priority.
constexpr size_t kLarge = size_t{32} << 20;

std::string names_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

Saving::Saving(World& world, Tracker& tracker, SavingOptions options)
    : world_(world), tracker_(tracker), options_(std::move(options)) {}

void Saving::agree_on_writers() {
  if (writers_) return;
  writers_ = find_writers(world_, options_.checkpoints, options_.all_write);
  place_ = locate_checkpoints(world_, options_.checkpoints);
  if (options_.in_background && writers_->is_one)
    background_ = std::make_unique<BackgroundWork>("checkpoint");
  if (is_main(world_.rank()) && !writers_->without_it.empty())
    tracker_.text(TextLevel::Warning,
                  fmt::format("checkpoint.writers: {} cannot see {} and write nothing of it",
                              names_of_ranks(writers_->without_it), options_.checkpoints.string()));
}

void Saving::prepare(const TrainingState& state) {
  if (!options_.in_background) return;
  agree_on_writers();
  if (!background_) return;
  const auto& [index, count, attempt] = writers_->share;
  is_under_way_ = true;
  background_->start([this, share = take_share(live_state(state), index, count)] {
    const auto bytes = bytes_of(share.model) + bytes_of(share.optimizer) + bytes_of(share.ema);
    if (bytes >= kLarge) lower_own_priority();
    model_.reserve(share.model);
    optimizer_.reserve(share.optimizer);
    ema_.reserve(share.ema);
  });
}

void Saving::save(const TrainingState& state, std::optional<CheckpointToPublish> to_publish,
                  bool is_last) {
  end_the_one_before();
  agree_on_writers();
  const auto checkpoint = capture_state(world_, state);
  const auto& [index, count, attempt] = writers_->share;
  ending_ = {checkpoint.head, std::move(to_publish)};
  if (first_step_ < 0) first_step_ = checkpoint.head.position.step;
  is_apart_ = count > 1;
  const bool in_background = options_.in_background && !is_last;
  if (writers_->is_one) {
    auto share = take_share(checkpoint, index, count);
    if (!in_background) {
      write_own(share);
    } else {
      share.model = model_.copy(share.model);
      share.optimizer = optimizer_.copy(share.optimizer);
      share.ema = ema_.copy(share.ema);
      is_under_way_ = true;
      background_->start([this, share = std::move(share)] { write_own(share); });
    }
  }
  if (in_background) return;
  bring_together(/*in_background=*/false);
  wait();
  barrier(world_, "checkpoint");
  note_checkpoint();
}

void Saving::write_own(const Checkpoint& share) {
  written_ = write_share(options_.checkpoints, share, writers_->share);
  if (writers_->share.count == 1) commit({written_});
}

void Saving::commit(const std::vector<nlohmann::ordered_json>& written) {
  commit_checkpoint(options_.checkpoints, ending_.head, written, writers_->share);
  prune_checkpoints(options_.checkpoints, ending_.head.position.step, options_.keep);
  if (ending_.to_publish) published_ = publish_checkpoint(*ending_.to_publish);
}

// Collective, when every rank has written its share.
void Saving::bring_together(bool in_background) {
  if (!std::exchange(is_apart_, false)) return;
  std::vector<nlohmann::ordered_json> written;
  for (auto& share : gather_object(world_, written_, 0, "checkpoint"))
    if (!share.is_null()) written.push_back(std::move(share));
  if (!is_main(world_.rank())) return;
  if (!in_background) return commit(written);
  is_under_way_ = true;
  background_->start([this, written = std::move(written)] { commit(written); });
}

void Saving::look(bool none_is_busy, bool is_saved) {
  if (is_under_way_ && !is_busy()) wait();
  if (none_is_busy) bring_together(/*in_background=*/true);
  has_checkpoint_ |= first_step_ >= 0 && !is_under_way_ && !is_apart_;
  if (is_saved) note_checkpoint();
}

// Once, by one rank of each node. Without it training goes on all the same.
void Saving::note_checkpoint() {
  if (std::exchange(is_noted_, true) || is_main(world_.rank()) || world_.local_rank() != 0) return;
  try {
    keep_checkpoint_note(options_.checkpoints, place_, first_step_);
  } catch (const Error& error) {
    tracker_.text(TextLevel::Warning, fmt::format("where checkpoints are: {}", error.what()));
  }
}

void Saving::end_the_one_before() {
  wait();
  bring_together(options_.in_background);
  wait();
}

void Saving::wait() {
  is_under_way_ = false;
  // A little less than the others wait for this rank, so that the reason is told first.
  if (background_) background_->wait(world_.timeout() * 9 / 10, "writing a checkpoint");
  if (const auto published = std::exchange(published_, std::nullopt)) record(*published, tracker_);
}

void Saving::finish() {
  if (!options_.in_background) return;
  end_the_one_before();
  barrier(world_, "checkpoint");
}

}  // namespace lockstep
