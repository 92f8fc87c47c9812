// The columns of a LogIndex. A block in the spool is
//   step[n] i64 | time[n] f64 | epoch[n] f64 | per metric: (row numbers[m] u32, padded to 8)
//   values[m] f64
// and a metric with a value in each of the n rows has no row numbers.
#include <algorithm>
#include <bit>
#include <cstring>

#include "catalog/index/log_index.h"

namespace lockstep::catalog {
namespace {

constexpr size_t kWord = 8;

size_t padded(size_t num_bytes) { return (num_bytes + kWord - 1) / kWord * kWord; }

template <class T>
void append_all(std::vector<std::byte>& bytes, const std::vector<T>& values) {
  const auto begin = bytes.size();
  bytes.resize(begin + padded(values.size() * sizeof(T)));
  if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size() * sizeof(T));
}

// Copies `count` values after the first `offset` values of `target`: all, or those of `rows`.
template <class From>
void append_read(const ColumnSpool& spool, uint64_t offset, size_t count,
                 const std::vector<uint32_t>* rows, std::vector<double>& target) {
  static_assert(sizeof(From) == sizeof(double));
  const auto begin = target.size();
  if (rows) {
    std::vector<From> values(count);
    spool.read(offset, std::as_writable_bytes(std::span(values)));
    for (const auto row : *rows) target.push_back(static_cast<double>(values[row]));
    return;
  }
  target.resize(begin + count);
  const auto read = std::span(target).subspan(begin);
  spool.read(offset, std::as_writable_bytes(read));
  if constexpr (!std::is_same_v<From, double>)
    for (auto& value : read) value = static_cast<double>(std::bit_cast<From>(value));
}

template <class From>
void pick(const std::vector<From>& values, const std::vector<uint32_t>& rows,
          std::vector<double>& target) {
  for (const auto row : rows) target.push_back(static_cast<double>(values[row]));
}

}  // namespace

void LogIndex::flush_block() {
  Block block{.num_rows = static_cast<uint32_t>(open_.step.size())};
  std::vector<std::byte> bytes;
  bytes.reserve((open_.step.size() * 3 + open_.num_values * 2) * kWord);
  append_all(bytes, open_.step);
  append_all(bytes, open_.time);
  append_all(bytes, open_.epoch);
  for (uint32_t key = 0; key < open_.columns.size(); ++key) {
    auto& column = open_.columns[key];
    if (column.values.empty()) continue;
    const auto count = static_cast<uint32_t>(column.values.size());
    const bool dense = count == block.num_rows && column.rows.front() == 0 &&
                       column.rows.back() == count - 1 &&
                       std::ranges::adjacent_find(column.rows) == column.rows.end();
    block.columns.push_back({key, count, bytes.size(), dense});
    if (!dense) append_all(bytes, column.rows);
    append_all(bytes, column.values);
    column.rows.clear();
    column.values.clear();
  }
  block.num_bytes = bytes.size();
  block.offset = spool_->append(bytes);
  blocks_.push_back(std::move(block));
  open_.step.clear();
  open_.time.clear();
  open_.epoch.clear();
  open_.num_values = 0;
}

std::optional<uint32_t> LogIndex::key_of(uint32_t metric) const {
  const auto it = std::ranges::find(summary_.metrics, metric, &MetricTotals::name);
  if (it == summary_.metrics.end() || it->count == 0) return std::nullopt;
  return static_cast<uint32_t>(it - summary_.metrics.begin());
}

void LogIndex::read_block(const Block& block, const ColumnPlace& column, CurveParts parts,
                          Curve& curve) const {
  const auto num_rows = size_t{block.num_rows};
  auto at = block.offset + column.offset;
  std::vector<uint32_t> rows;
  if (!column.dense) {
    rows.resize(column.count);
    spool_->read(at, std::as_writable_bytes(std::span(rows)));
    at += padded(column.count * sizeof(uint32_t));
  }
  const auto* chosen = column.dense ? nullptr : &rows;
  append_read<double>(*spool_, at, column.count, nullptr, curve.value);
  const auto steps = block.offset, times = steps + num_rows * kWord;
  const auto epochs = times + num_rows * kWord;
  if (parts.step) append_read<int64_t>(*spool_, steps, num_rows, chosen, curve.step);
  if (parts.time) append_read<double>(*spool_, times, num_rows, chosen, curve.time);
  if (parts.epoch) append_read<double>(*spool_, epochs, num_rows, chosen, curve.epoch);
}

void LogIndex::read_open(uint32_t key, CurveParts parts, Curve& curve) const {
  if (key >= open_.columns.size()) return;
  const auto& column = open_.columns[key];
  curve.value.insert(curve.value.end(), column.values.begin(), column.values.end());
  if (parts.step) pick(open_.step, column.rows, curve.step);
  if (parts.time) pick(open_.time, column.rows, curve.time);
  if (parts.epoch) pick(open_.epoch, column.rows, curve.epoch);
}

Curve LogIndex::read(uint32_t metric, CurveParts parts) const {
  Curve curve;
  const auto key = key_of(metric);
  if (!key) return curve;
  const auto count = summary_.metrics[*key].count;
  curve.value.reserve(count);
  for (auto [wanted, target] :
       {std::pair(parts.step, &curve.step), {parts.time, &curve.time}, {parts.epoch, &curve.epoch}})
    if (wanted) target->reserve(count);
  for (const auto& block : blocks_) {
    const auto it = std::ranges::lower_bound(block.columns, *key, {}, &ColumnPlace::key);
    if (it != block.columns.end() && it->key == *key) read_block(block, *it, parts, curve);
  }
  read_open(*key, parts, curve);
  return curve;
}

}  // namespace lockstep::catalog
