#include "data/loader/batch_reader.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>
#include <utility>

#include "core/standard_exceptions.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

constexpr size_t kSamplesNamed = 4;

// Held by the consumer: its current batch, the previous one and, on a GPU, the one being copied.
constexpr int64_t kBatchesOutside = 3;

BatchCut cut_of(const LoaderOptions& options, int64_t samples) {
  check(options.batch_size >= 1, "batch_size must be at least 1");
  check(options.group >= 1 && samples % options.group == 0,
        "the samples must be divisible by the batches of a group");
  return {samples, options.batch_size, options.drop_last, options.group};
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

// Of a plugin, the batch may lack rows. `what`: "field 'x'".
void verify_rows(const std::string& what, const at::Tensor& tensor, int64_t count) {
  if (tensor.defined() && tensor.dim() > 0 && tensor.size(0) == count) return;
  const auto given = tensor.defined()
                         ? fmt::format("has the shape [{}]", fmt::join(tensor.sizes(), ", "))
                         : "is undefined";
  throw config_error(
      fmt::format("{} of the dataset's batch {}; expected {} row{}, one per requested sample", what,
                  given, count, count == 1 ? "" : "s"));
}

// In newly allocated memory.
void leave_out(const std::set<int64_t>& bad_rows, Batch& batch) {
  std::vector<int64_t> good;
  for (int64_t row = 0; row < batch.size(); ++row)
    if (!bad_rows.contains(row)) good.push_back(row);
  const auto rows = at::tensor(good);
  batch.indices = batch.indices.index_select(0, rows);
  for (auto& [name, tensor] : batch.fields) tensor = tensor.index_select(0, rows);
}

}  // namespace

BatchReader::BatchReader(const Dataset& dataset, IndexSequence indices,
                         const LoaderOptions& options)
    : dataset_(dataset),
      owner_(dataset.weak_from_this().lock()),
      indices_(std::move(indices)),
      ahead_(dataset.sample_info(), indices_),
      options_(options),
      cut_(cut_of(options, indices_.size())),
      layout_(dataset.layout()),
      memory_(layout_, memory_options(options, indices_.size())) {}

ReadBatch BatchReader::begin(int64_t batch) {
  ReadBatch begun;
  try {
    ahead_.advance(cut_.begin_of(batch));
    if (layout_.empty()) return begun;
    begun.batch = memory_.take(cut_.rows_of(batch));
  } catch (...) {  // fails the batch, like a read error
    begun.rows.error = described(whole(batch));
  }
  return begun;
}

ReadRows BatchReader::read(const BatchPiece& piece, Batch& batch) const {
  try {
    return {.bad = read_rows(piece, batch)};
  } catch (...) {
    return {.bad = {}, .error = described(piece)};
  }
}

ReadBatch BatchReader::read_whole(int64_t batch) {
  auto result = begin(batch);
  if (!result.rows.error) result.rows = read(whole(batch), result.batch);
  return result;
}

Batch BatchReader::finish(ReadBatch read) const {
  auto& [batch, rows] = read;
  if (rows.error) std::rethrow_exception(rows.error);
  if (rows.bad.empty()) return std::move(batch);
  if (std::ssize(rows.bad) == batch.size())
    throw environment_error(fmt::format("{}: no sample of a batch could be loaded", options_.name));
  leave_out(rows.bad, batch);
  return std::move(batch);
}

int64_t BatchReader::place_of(const BatchPiece& piece) const {
  return cut_.begin_of(piece.batch) + piece.begin;
}

std::vector<int64_t> BatchReader::indices_of(const BatchPiece& piece) const {
  return indices_.slice(place_of(piece), piece.end - piece.begin);
}

// Returns the rows that could not be loaded.
std::set<int64_t> BatchReader::read_rows(const BatchPiece& piece, Batch& batch) const {
  try {
    if (is_divisible())
      fill(piece, batch);
    else
      get_batch(indices_of(piece), batch);
    return {};
  } catch (const Error&) {
    if (!options_.bad_samples) throw;
  }
  return read_one_by_one(piece, batch);
}

void BatchReader::get_batch(const std::vector<int64_t>& indices, Batch& batch) const {
  batch = dataset_.get_samples({.indices = indices,
                                .seed = options_.seed,
                                .epoch = options_.epoch,
                                .nearby_groups = indices_.nearby_groups()});
  if (!batch.indices.defined()) batch.indices = at::tensor(indices);
  verify_rows("'indices'", batch.indices, std::ssize(indices));
  for (const auto& [name, tensor] : batch.fields)
    verify_rows(fmt::format("field '{}'", name), tensor, std::ssize(indices));
  if (options_.device.is_cpu()) return;
  for (auto& [name, tensor] : batch.fields) tensor = tensor.pin_memory();
}

void BatchReader::fill(const BatchPiece& piece, const Batch& batch) const {
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

std::set<int64_t> BatchReader::read_one_by_one(const BatchPiece& piece, Batch& batch) const {
  const auto indices = indices_of(piece);
  std::set<int64_t> bad_rows;
  std::vector<int64_t> good;
  for (auto row = piece.begin; row < piece.end; ++row) {
    const auto index = indices[static_cast<size_t>(row - piece.begin)];
    try {
      if (is_divisible())
        fill({piece.batch, row, row + 1}, batch);
      else
        dataset_.get_samples(
            {.indices = std::span(&index, 1), .seed = options_.seed, .epoch = options_.epoch});
      good.push_back(index);
    } catch (const Error& error) {
      options_.bad_samples->add(index, error);
      bad_rows.insert(row);
    }
  }
  if (is_divisible()) return bad_rows;
  if (good.empty()) throw environment_error("none of its samples could be loaded");
  get_batch(good, batch);
  return {};  // they are already removed
}

// The current exception, with a prefix that names the rows.
std::exception_ptr BatchReader::described(const BatchPiece& piece) const {
  const auto where = fmt::format("{}: batch {}, {}: ", options_.name, piece.batch,
                                 list_samples(indices_of(piece)));
  try {
    with_standard_exceptions([] { throw; });
    return nullptr;
  } catch (const Error& error) {
    return std::make_exception_ptr(Error(error.kind(), where + error.what()));
  } catch (const std::bad_alloc&) {
    return std::make_exception_ptr(environment_error(where + "out of memory"));
  } catch (const std::exception& error) {
    const std::string text = error.what();
    return std::make_exception_ptr(Error(ErrorKind::Bug, where + text.substr(0, text.find('\n'))));
  }
}

}  // namespace lockstep::data
