#include "trainer/saving.h"

#include <utility>

#include "core/own_priority.h"
#include "distributed/collectives.h"
#include "tracking/on_ranks.h"

namespace lockstep {
namespace {

// Writing less takes next to no processor time, and training that waits for it must not wait for
// strangers that have a higher priority.
constexpr size_t kLarge = size_t{32} << 20;

size_t bytes_of(const NamedTensors& tensors) {
  size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

}  // namespace

Saving::Saving(World& world, Tracker& tracker, SavingOptions options)
    : world_(world), tracker_(tracker), options_(std::move(options)) {
  if (options_.in_background && is_main(world.rank()))
    background_ = std::make_unique<BackgroundWork>("checkpoint");
}

void Saving::prepare(const Model& model, const Optimizer& optimizer, const WeightAverage* average) {
  if (!background_) return;
  is_under_way_ = true;
  background_->start([this, model = tensors_of(model), optimizer = optimizer.state(),
                      ema = average ? average->tensors() : NamedTensors()] {
    if (bytes_of(model) + bytes_of(optimizer) + bytes_of(ema) >= kLarge) lower_own_priority();
    model_.reserve(model);
    optimizer_.reserve(optimizer);
    ema_.reserve(ema);
  });
}

void Saving::save(const TrainingState& state, std::optional<CheckpointToPublish> to_publish,
                  bool is_last) {
  wait();
  auto checkpoint = capture_state(world_, state);
  const bool in_background = options_.in_background && !is_last;
  if (in_background && background_) {
    checkpoint.model = model_.copy(checkpoint.model);
    checkpoint.optimizer = optimizer_.copy(checkpoint.optimizer);
    checkpoint.ema = ema_.copy(checkpoint.ema);
    is_under_way_ = true;
    background_->start([this, checkpoint = std::move(checkpoint),
                        to_publish = std::move(to_publish)] { write(checkpoint, to_publish); });
  }
  if (in_background) return;
  if (is_main(world_.rank())) write(checkpoint, to_publish);
  wait();
  barrier(world_, "checkpoint");
}

void Saving::write(const Checkpoint& checkpoint,
                   const std::optional<CheckpointToPublish>& to_publish) {
  write_checkpoint(options_.checkpoints, checkpoint);
  prune_checkpoints(options_.checkpoints, checkpoint.head.position.step, options_.keep_last);
  if (to_publish) published_ = publish_checkpoint(*to_publish);
}

void Saving::look() {
  if (is_under_way_ && !is_busy()) wait();
}

void Saving::wait() {
  is_under_way_ = false;
  // A little less than the others wait for this rank, so that the reason is told first.
  if (background_) background_->wait(world_.timeout() * 9 / 10, "writing a checkpoint");
  if (const auto published = std::exchange(published_, std::nullopt)) record(*published, tracker_);
}

void Saving::finish() {
  if (!options_.in_background) return;
  wait();
  barrier(world_, "checkpoint");
}

}  // namespace lockstep
