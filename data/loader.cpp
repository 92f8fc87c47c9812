#include "data/loader.h"

#include <pthread.h>

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.h"

namespace lockstep {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kSamplesNamed = 4;

// Held by the consumer: the batch it works on, the one before it and, on a GPU, the one that is
// being copied.
constexpr int64_t kBatchesOutside = 3;

int64_t count_batches(int64_t total, const LoaderOptions& options) {
  check(options.batch_size >= 1, "batch_size must be at least 1");
  check(options.workers >= 0, "workers must be at least 0");
  check(options.prefetch >= 1, "prefetch must be at least 1");
  return options.drop_last ? total / options.batch_size
                           : (total + options.batch_size - 1) / options.batch_size;
}

// Whole batches as long as every worker has one to load; parts of them where there are more
// workers.
int64_t count_rows_per_piece(const LoaderOptions& options, bool divisible) {
  if (!divisible || options.workers <= options.prefetch) return options.batch_size;
  const auto pieces = (options.workers + options.prefetch - 1) / options.prefetch;
  return std::max<int64_t>(1, (options.batch_size + pieces - 1) / pieces);
}

BatchMemoryOptions memory_options(const LoaderOptions& options, int64_t samples) {
  const auto ahead = options.workers > 0 ? options.prefetch : 0;
  return {.rows = std::min(options.batch_size, samples),
          .kept = static_cast<size_t>(ahead + kBatchesOutside),
          .page_locked = !options.device.is_cpu()};
}

std::string list_samples(std::span<const int64_t> indices) {
  std::string text = indices.size() == 1 ? "sample" : "samples";
  for (size_t i = 0; i < std::min(indices.size(), kSamplesNamed); ++i)
    text += fmt::format("{}{}", i == 0 ? " " : ", ", indices[i]);
  if (indices.size() > kSamplesNamed)
    text += fmt::format(" and {} more", indices.size() - kSamplesNamed);
  return text;
}

}  // namespace

Loader::Loader(const Dataset& dataset, IndexSequence indices, LoaderOptions options)
    : dataset_(dataset),
      indices_(std::move(indices)),
      options_(std::move(options)),
      layout_(dataset.layout()),
      num_batches_(count_batches(indices_.size(), options_)),
      rows_per_piece_(count_rows_per_piece(options_, !layout_.empty())),
      memory_(layout_, memory_options(options_, indices_.size())) {
  if (!options_.device.is_cpu()) transfer_ = std::make_unique<DeviceTransfer>(options_.device);
  const auto ahead = std::min(options_.prefetch, num_batches_);
  const auto pieces = (options_.batch_size + rows_per_piece_ - 1) / rows_per_piece_;
  if (options_.workers > 0) slots_.resize(static_cast<size_t>(ahead));
  for (int64_t i = 0; i < std::min(options_.workers, ahead * pieces); ++i) {
    workers_.emplace_back([this] { work(); });
    // Whose stacks a hang report shows.
    ::pthread_setname_np(workers_.back().native_handle(), "lockstep-data");
  }
}

Loader::~Loader() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  room_.notify_all();
}

std::optional<Batch> Loader::next() {
  const auto begin = Clock::now();
  const auto add_wait = [&] {
    stats_.wait_s += std::chrono::duration<double>(Clock::now() - begin).count();
  };
  std::optional<Batch> batch;
  try {
    batch = next_loaded();
  } catch (...) {
    add_wait();
    throw;
  }
  add_wait();
  if (batch) ++stats_.batches;
  return batch;
}

std::optional<Batch> Loader::next_loaded() {
  if (position_ == num_batches_) return std::nullopt;
  stats_.ready += count_ready();
  if (failed_) {
    ++position_;
    std::rethrow_exception(std::exchange(failed_, nullptr));
  }
  if (!transfer_ || !transfer_->has_batch()) {
    auto slot = take();
    if (slot.error) {
      ++position_;
      std::rethrow_exception(slot.error);
    }
    if (!transfer_) {
      ++position_;
      return std::move(slot.batch);
    }
    transfer_->start(std::move(slot.batch));
  }
  auto batch = transfer_->finish();
  ++position_;
  // The one after it travels while the caller works with this one.
  if (position_ < num_batches_ && next_is_ready()) {
    auto slot = take();
    if (slot.error)
      failed_ = slot.error;
    else
      transfer_->start(std::move(slot.batch));
  }
  return batch;
}

int64_t Loader::count_ready() {
  int64_t ready = transfer_ && transfer_->has_batch();
  const std::lock_guard lock(mutex_);
  for (const auto& slot : slots_) ready += slot.pieces_left == 0;
  return ready;
}

bool Loader::next_is_ready() {
  if (workers_.empty()) return false;
  const std::lock_guard lock(mutex_);
  return slot_of(taken_).pieces_left == 0;
}

Loader::Slot Loader::take() {
  if (workers_.empty()) {
    auto slot = load_here(taken_++);
    leave_out(slot);
    return slot;
  }
  std::unique_lock lock(mutex_);
  auto& slot = slot_of(taken_);
  if (!ready_.wait_for(lock, options_.timeout, [&] { return slot.pieces_left == 0; }))
    throw environment_error(fmt::format(
        "{}: batch {} was not loaded within {} s: the storage of the "
        "dataset hangs or is too slow",
        options_.name, taken_, std::chrono::duration<double>(options_.timeout).count()));
  auto result = std::exchange(slot, {});
  ++taken_;
  lock.unlock();
  // There is room for one batch more, which several workers share if they share any.
  if (rows_per_piece_ < options_.batch_size)
    room_.notify_all();
  else
    room_.notify_one();
  leave_out(result);
  return result;
}

int64_t Loader::rows_of(int64_t batch) const {
  return std::min(options_.batch_size, indices_.size() - batch * options_.batch_size);
}

int64_t Loader::place_of(const Piece& piece) const {
  return piece.batch * options_.batch_size + piece.begin;
}

std::vector<int64_t> Loader::indices_of(const Piece& piece) const {
  return indices_.slice(place_of(piece), piece.end - piece.begin);
}

Loader::Slot Loader::load_here(int64_t batch) {
  Slot slot;
  allocate(slot, batch);
  if (slot.error) return slot;
  try {
    slot.bad_rows = load(whole(batch), slot.batch);
  } catch (...) {
    slot.error = described(whole(batch));
  }
  return slot;
}

// `batch` has its memory already where the dataset has a layout; otherwise it becomes the
// dataset's. Returns the rows that could not be loaded.
std::set<int64_t> Loader::load(const Piece& piece, Batch& batch) const {
  try {
    if (layout_.empty())
      load_batch(indices_of(piece), batch);
    else
      fill(piece, batch);
    return {};
  } catch (const Error&) {
    if (!options_.bad_samples) throw;
  }
  return load_one_by_one(piece, batch);
}

void Loader::load_batch(const std::vector<int64_t>& indices, Batch& batch) const {
  batch = dataset_.get_batch(indices);
  if (options_.device.is_cpu()) return;
  for (auto& [name, tensor] : batch.fields) tensor = tensor.pin_memory();
}

void Loader::fill(const Piece& piece, const Batch& batch) const {
  const auto count = piece.end - piece.begin;
  std::vector<at::Tensor> fields;
  fields.reserve(batch.fields.size());
  for (const auto& [name, tensor] : batch.fields)
    fields.push_back(count == tensor.size(0) ? tensor : tensor.narrow(0, piece.begin, count));
  const std::span indices(batch.indices.mutable_data_ptr<int64_t>() + piece.begin,
                          static_cast<size_t>(count));
  indices_.copy(place_of(piece), indices);
  dataset_.fill({.indices = indices,
                 .seed = options_.seed,
                 .epoch = options_.epoch,
                 .nearby_groups = indices_.nearby_groups()},
                fields);
}

std::set<int64_t> Loader::load_one_by_one(const Piece& piece, Batch& batch) const {
  const auto indices = indices_of(piece);
  std::set<int64_t> bad_rows;
  std::vector<int64_t> good;
  for (auto row = piece.begin; row < piece.end; ++row) {
    const auto index = indices[static_cast<size_t>(row - piece.begin)];
    try {
      if (layout_.empty())
        dataset_.get_batch(std::span(&index, 1));
      else
        fill({piece.batch, row, row + 1}, batch);
      good.push_back(index);
    } catch (const Error& error) {
      options_.bad_samples->add(index, error);
      bad_rows.insert(row);
    }
  }
  if (!layout_.empty()) return bad_rows;
  if (good.empty()) throw environment_error("none of its samples could be loaded");
  load_batch(good, batch);
  return {};  // it is already without them
}

// What is left of a batch some of whose rows could not be loaded, in memory of its own.
void Loader::leave_out(Slot& slot) const {
  if (slot.error || slot.bad_rows.empty()) return;
  std::vector<int64_t> good;
  for (int64_t row = 0; row < slot.batch.size(); ++row)
    if (!slot.bad_rows.contains(row)) good.push_back(row);
  if (good.empty()) {
    slot.error = std::make_exception_ptr(environment_error(
        fmt::format("{}: none of the samples of a batch could be loaded", options_.name)));
    return;
  }
  const auto rows = at::tensor(good);
  slot.batch.indices = slot.batch.indices.index_select(0, rows);
  for (auto& [name, tensor] : slot.batch.fields) tensor = tensor.index_select(0, rows);
}

// The exception that is being handled, with what was loaded in front of its message.
std::exception_ptr Loader::described(const Piece& piece) const {
  const auto where = fmt::format("{}: batch {}, {}: ", options_.name, piece.batch,
                                 list_samples(indices_of(piece)));
  try {
    throw;
  } catch (const Error& error) {
    return std::make_exception_ptr(Error(error.kind(), where + error.what()));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(environment_error(where + "out of memory"));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return std::make_exception_ptr(Error(ErrorKind::Bug, where + text.substr(0, text.find('\n'))));
  }
}

// The next piece that nobody loads, once there is room for its batch; nothing when all are claimed
// or the loader ends.
std::optional<Loader::Claim> Loader::claim() {
  std::unique_lock lock(mutex_);
  const auto capacity = static_cast<int64_t>(slots_.size());
  // Not timed: how long a batch lies here is the training's pace; the end of the loader ends the
  // wait.
  room_.wait(lock, [&] {
    return ends_ || claimed_ == num_batches_ || rows_claimed_ > 0 || claimed_ < taken_ + capacity;
  });
  if (ends_ || claimed_ == num_batches_) return std::nullopt;
  const auto batch = claimed_;
  const auto rows = rows_of(batch);
  auto& slot = slot_of(batch);
  if (rows_claimed_ == 0) {
    slot.pieces_left = (rows + rows_per_piece_ - 1) / rows_per_piece_;
    allocate(slot, batch);
  }
  const Piece piece{batch, rows_claimed_, std::min(rows, rows_claimed_ + rows_per_piece_)};
  rows_claimed_ = piece.end;
  if (rows_claimed_ == rows) {
    ++claimed_;
    rows_claimed_ = 0;
  }
  return Claim{piece, &slot, slot.error != nullptr};
}

// A failure is that of the batch, as one of loading it would be.
void Loader::allocate(Slot& slot, int64_t batch) {
  if (layout_.empty()) return;
  try {
    slot.batch = memory_.take(rows_of(batch));
  } catch (...) {
    slot.error = described(whole(batch));
  }
}

void Loader::finish(const Claim& claim, std::set<int64_t> bad_rows, std::exception_ptr error) {
  bool wanted = false;
  {
    const std::lock_guard lock(mutex_);
    auto& slot = *claim.slot;
    slot.bad_rows.merge(bad_rows);
    if (error && !slot.error) slot.error = std::move(error);
    wanted = --slot.pieces_left == 0 && claim.piece.batch == taken_;
  }
  if (wanted) ready_.notify_one();
}

void Loader::work() {
  while (const auto claim = this->claim()) {
    std::set<int64_t> bad_rows;
    std::exception_ptr error;
    try {
      if (!claim->is_lost) bad_rows = load(claim->piece, claim->slot->batch);
    } catch (...) {
      error = described(claim->piece);
    }
    finish(*claim, std::move(bad_rows), std::move(error));
  }
}

}  // namespace lockstep
