#include "trainer/checkpoint/checkpoint_saver.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "core/system/thread_priority.h"
#include "distributed/collectives.h"
#include "distributed/objects.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"
#include "trainer/checkpoint/safetensors.h"

namespace lockstep::trainer {
namespace {

// Below this size, writing takes negligible CPU time, and keeps its priority so that training, if
// it waits for it, does not wait for unrelated processes.
constexpr size_t kLarge = size_t{32} << 20;

std::string names_of_ranks(const std::vector<int>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

}  // namespace

CheckpointSaver::CheckpointSaver(World& world, Tracker& tracker, SavingOptions options)
    : world_(world), tracker_(tracker), options_(std::move(options)) {}

void CheckpointSaver::agree_on_writers() {
  if (writers_) return;
  writers_ = find_writers(world_, options_.checkpoints, options_.all_write);
  location_ = locate_checkpoints(world_, options_.checkpoints);
  if (options_.in_background && writers_->is_writer)
    background_ = std::make_unique<BackgroundWork>("checkpoint");
  if (tracking::is_main(world_.rank()) && !writers_->excluded_ranks.empty())
    tracker_.text(
        TextLevel::Warning,
        fmt::format("checkpoint.writers: {} cannot see {} and do not write to it",
                    names_of_ranks(writers_->excluded_ranks), options_.checkpoints.string()));
}

void CheckpointSaver::prepare(const TrainingState& state) {
  if (!options_.in_background) return;
  agree_on_writers();
  if (!background_) return;
  const auto& [index, count, attempt] = writers_->share;
  work(State::Reserving, true, [this, share = take_share(live_state(state), index, count)] {
    const auto bytes = bytes_of(share.model) + bytes_of(share.optimizer) + bytes_of(share.ema);
    if (bytes >= kLarge) lower_thread_priority();
    model_.reserve(share.model);
    optimizer_.reserve(share.optimizer);
    ema_.reserve(share.ema);
  });
}

void CheckpointSaver::save(const TrainingState& state,
                           std::optional<CheckpointToPublish> to_publish, bool is_last) {
  complete();
  agree_on_writers();
  auto [checkpoint, divided] = capture_state(world_, state);
  pending_ = {.head = checkpoint.head, .to_publish = std::move(to_publish)};
  if (first_step_ < 0) first_step_ = checkpoint.head.position.step;
  const bool in_background = options_.in_background && !is_last;
  const auto& [index, count, attempt] = writers_->share;
  auto share = writers_->is_writer ? take_share(checkpoint, index, count) : Checkpoint();
  try {
    if (writers_->is_writer) write(std::move(share), divided, in_background);
  } catch (const PeerError&) {
    throw;
  } catch (const Error&) {
    divided.finish();  // the other ranks still write
    throw;
  }
  divided.finish();
  if (!writers_->is_writer && count > 1) state_ = State::AwaitingShares;
  if (in_background) return;
  complete(/*in_background=*/false);
  distributed::barrier(world_, "checkpoint");
  note_checkpoint();
}

void CheckpointSaver::work(State state, bool in_background, std::function<void()> act) {
  state_ = state;
  if (in_background)
    background_->start(std::move(act));
  else
    act();
}

void CheckpointSaver::write(Checkpoint share, StateStream& divided, bool in_background) {
  FetchListed fetch = [&divided](const std::string& list, const std::string& name) {
    return divided.take(list, name);
  };
  if (in_background) {
    const auto fetch_from = [&fetch](const char* list) {
      return [&fetch, list](const std::string& name) { return fetch(list, name); };
    };
    share.model = model_.copy(share.model, fetch_from("model"));
    share.ema = ema_.copy(share.ema, fetch_from("ema"));
    share.optimizer = optimizer_.copy(share.optimizer, fetch_from("optimizer"));
    fetch = {};
  }
  work(State::Writing, in_background, [this, share = std::move(share), fetch = std::move(fetch)] {
    pending_.written = write_share(options_.checkpoints, share, writers_->share, fetch);
    if (writers_->share.count == 1) commit({pending_.written});
  });
}

void CheckpointSaver::commit(const std::vector<nlohmann::ordered_json>& written) {
  const auto& head = pending_.head;
  commit_checkpoint(options_.checkpoints, head, written, writers_->share, options_.exported);
  prune_checkpoints(options_.checkpoints, head.position.step, options_.keep);
  if (options_.mirror && writers_->share.count == 1) options_.mirror->update(head.position.step);
  if (pending_.to_publish) pending_.published = publish_checkpoint(*pending_.to_publish);
}

// Collective, called when every rank has written its share.
void CheckpointSaver::combine_shares(bool in_background) {
  if (state_ != State::AwaitingShares) return;
  state_ = State::Idle;
  if (options_.is_mirrored) not_uploaded_ = pending_.head.position.step;
  std::vector<nlohmann::ordered_json> written;
  for (auto& share : distributed::gather_object(world_, pending_.written, 0, "checkpoint"))
    if (!share.is_null()) written.push_back(std::move(share));
  if (tracking::is_main(world_.rank()))
    work(State::Committing, in_background, [this, all = std::move(written)] { commit(all); });
}

void CheckpointSaver::poll(const SavingVote& vote) {
  if (state_ != State::Idle && !is_busy()) wait();
  const bool is_committed = state_ != State::AwaitingShares;
  if (vote.none_is_busy) combine_shares(/*in_background=*/true);
  if (vote.none_is_busy && vote.none_is_uploading && is_committed) continue_upload();
  has_checkpoint_ |= first_step_ >= 0 && state_ == State::Idle;
  if (vote.is_saved) note_checkpoint();
}

// Collective, called when all ranks have done the previous part.
void CheckpointSaver::continue_upload() {
  auto* const mirror = options_.mirror;
  const bool leads = mirror && tracking::is_main(world_.rank());
  switch (upload_) {
    case Upload::Idle:
      if (!not_uploaded_) return;
      uploaded_step_ = *std::exchange(not_uploaded_, std::nullopt);
      if (leads) mirror->clear(uploaded_step_);
      upload_ = Upload::Clearing;
      break;
    case Upload::Clearing:
      if (mirror && writers_->is_writer)
        mirror->upload_share(uploaded_step_, writers_->share.index, writers_->share.count);
      upload_ = Upload::Uploading;
      break;
    case Upload::Uploading:
      report_uploads();
      if (leads) mirror->update(uploaded_step_);
      upload_ = Upload::Completing;
      break;
    case Upload::Completing: upload_ = Upload::Idle; break;
  }
}

// Collective. The main rank records it, since others may not be tracked.
void CheckpointSaver::report_uploads() {
  const auto problems =
      options_.mirror ? options_.mirror->take_problems() : std::vector<std::string>();
  const auto all = distributed::gather_object(world_, problems, 0, "checkpoint.mirror");
  for (size_t rank = 0; rank < all.size(); ++rank)
    for (const auto& problem : all[rank])
      tracker_.text(TextLevel::Warning,
                    fmt::format("checkpoint.mirror: not uploaded by rank {}: {}", rank,
                                problem.get<std::string>()));
}

// Collective.
void CheckpointSaver::finish_upload() {
  if (!options_.is_mirrored) return;
  std::chrono::milliseconds timeout = world_.timeout() * 9 / 10;
  while (upload_ != Upload::Idle || not_uploaded_) {
    const bool is_done = !options_.mirror || options_.mirror->wait(timeout);
    const auto all_done = distributed::all_gather_object(world_, is_done, "checkpoint.mirror");
    if (std::ranges::any_of(all_done,
                            [](const auto& done) { return !done.template get<bool>(); })) {
      report_uploads();
      timeout = {};  // it is over
      break;
    }
    continue_upload();
  }
  if (options_.mirror) options_.mirror->finish(timeout, tracker_);
}

// Once, by one rank per node. A failure does not stop training.
void CheckpointSaver::note_checkpoint() {
  if (std::exchange(is_noted_, true) || tracking::is_main(world_.rank()) ||
      world_.local_rank() != 0)
    return;
  try {
    write_checkpoint_note(options_.checkpoints, location_, first_step_);
  } catch (const Error& error) {
    tracker_.text(TextLevel::Warning, fmt::format("note of checkpoints: {}", error.what()));
  }
}

// Collective.
void CheckpointSaver::complete(bool in_background) {
  wait();
  combine_shares(in_background);
  wait();
}

void CheckpointSaver::wait() {
  const bool is_one_of_several = state_ == State::Writing && writers_->share.count > 1;
  if (state_ != State::AwaitingShares)
    state_ = is_one_of_several ? State::AwaitingShares : State::Idle;
  // Shorter than the timeout of the other ranks, so that the cause is reported first.
  if (background_) background_->wait(world_.timeout() * 9 / 10, "writing a checkpoint");
  if (const auto published = std::exchange(pending_.published, std::nullopt))
    record(*published, tracker_);
  if (options_.mirror && tracking::is_main(world_.rank())) options_.mirror->report(tracker_);
}

void CheckpointSaver::end_writing() {
  if (!background_) return;
  try {
    background_->wait(world_.timeout() * 9 / 10, "writing a checkpoint");
  } catch (const std::exception& error) {
    tracker_.text(TextLevel::Warning,
                  fmt::format("a checkpoint was not written: {}", message_of(error)));
  }
}

void CheckpointSaver::finish() {
  if (options_.in_background) {
    complete(/*in_background=*/true);
    distributed::barrier(world_, "checkpoint");
  }
  finish_upload();
}

}  // namespace lockstep::trainer
