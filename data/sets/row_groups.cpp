#include "data/sets/row_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <numeric>

#include "core/printable.h"
#include "formats/table/table_encoding.h"
#include "lockstep/error.h"

namespace lockstep::data {

RowGroups::RowGroups(const ColumnarConfig& config)
    : config_(config.table), files_(config.files, config.are_mapped) {
  const auto path = printable(config.path, 400);
  for (const auto& text : config.filter) filter_.push_back(formats::parse_column_test(text));
  if (!are_fetched_later()) files_.fetch_all_ahead();
  files_.open_all();
  const auto first = files_.open(0);
  choose_columns_of(*first, path);
  if (are_fetched_later()) files_.fetch_ahead(files_to_look_at());
  for (size_t number = 0; number < files_.count(); ++number) {
    const auto file = number == 0 ? first : files_.open(number);
    add(number, *file);
  }
  if (!has_row_access_) left_.clear();
  if (ends_.empty())
    throw config_error(fmt::format("dataset {}: {}: no rows remain", config.dataset, path));
}

void RowGroups::choose_columns_of(const formats::ColumnarFile& first, const std::string& path) {
  const auto index = first.index_columns();
  used_ = read_ = used_columns(config_, first.columns(), path, index);
  warning_ = index_warning(config_, index, path);
  for (const auto& test : filter_)
    if (std::ranges::find(read_, test.column) == read_.end()) read_.push_back(test.column);
}

void RowGroups::verify_columns(size_t number, const formats::ColumnarFile& file) const {
  const auto all = file.columns();
  for (const auto& column : read_)
    if (std::ranges::find(all, column) == all.end())
      formats::used_columns({.columns = {column}}, all,
                            printable(files_.path(number).string(), 400));
}

// Whether a group has to be read to know how many of its rows are used.
bool RowGroups::needs_look(const formats::ColumnarFile& file, size_t group) const {
  return !filter_.empty() ||
         (config_.missing == formats::MissingValues::Drop && !file.is_complete(group, used_));
}

std::vector<size_t> RowGroups::files_to_look_at() const {
  std::vector<size_t> files;
  for (size_t number = 0; number < files_.count(); ++number) {
    const auto file = files_.open(number);
    verify_columns(number, *file);
    const auto rows = file->row_groups();
    bool is_looked_at = false;
    for (size_t group = 0; group < rows.size() && !is_looked_at; ++group)
      is_looked_at = rows[group] > 0 && file->may_pass(group, filter_) && needs_look(*file, group);
    if (is_looked_at) files.push_back(number);
  }
  return files;
}

void RowGroups::add(size_t number, const formats::ColumnarFile& file) {
  verify_columns(number, file);
  has_row_access_ &= file.has_row_access();
  const auto rows = file.row_groups();
  int64_t begin = 0, end = 0;  // of the group in the file
  for (size_t group = 0; group < rows.size(); ++group) {
    begin = std::exchange(end, end + rows[group]);
    if (rows[group] == 0 || !file.may_pass(group, filter_)) continue;
    const auto count =
        needs_look(file, group) ? look_at(file, group, begin, rows[group]) : rows[group];
    if (count == 0) continue;
    groups_.emplace_back(number, group);
    ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
  }
  file_ends_.push_back(ends_.empty() ? 0 : ends_.back());
}

// Counts the used rows of the next group, and remembers which they are if they are read singly.
int64_t RowGroups::look_at(const formats::ColumnarFile& file, size_t group, int64_t begin,
                           int64_t rows) {
  const auto table = read_used(file, group, serial_for);
  const auto count = static_cast<int64_t>(table.rows);
  if (!has_row_access_ || count == rows || count == 0) return count;
  if (rows > std::numeric_limits<uint32_t>::max())
    throw config_error(
        fmt::format("{}: {} rows are too many to remove some of them; write "
                    "smaller record batches",
                    table.name, rows));
  auto& left = left_[groups_.size()];
  left.reserve(table.places.size());
  for (const auto place : table.places) left.push_back(static_cast<uint32_t>(place - 1 - begin));
  return count;
}

void RowGroups::fetch_ahead(const std::vector<size_t>& groups) const {
  if (!are_fetched_later()) return;
  std::vector<size_t> files;
  std::vector<bool> is_known(files_.count());
  for (const auto group : groups) {
    const auto file = groups_[group].first;
    if (!is_known[file]) files.push_back(file);
    is_known[file] = true;
  }
  files_.fetch_ahead(files);
}

void RowGroups::fetch_all_ahead() const {
  std::vector<size_t> all(groups_.size());
  std::iota(all.begin(), all.end(), 0);
  fetch_ahead(all);
}

bool RowGroups::need_all_rows() const {
  bool has_counts = config_.label.has_value();
  for (size_t number = 0; number < files_.count() && has_counts; ++number)
    has_counts = files_.open(number)->has_counts(*config_.label);
  if (needs_all_rows(config_, has_counts)) return true;
  for (const auto& column : used_) {
    const auto kind = files_.open(0)->kind_of(column);
    if (kind == formats::ColumnKind::Unknown) return true;
    for (size_t number = 1; number < files_.count(); ++number)
      if (files_.open(number)->kind_of(column) != kind) return true;
  }
  return false;
}

formats::DataTable RowGroups::read(size_t group, const ParallelFor& work) const {
  const auto [number, group_in_file] = groups_[group];
  formats::DataTable table;
  files_.use(number, [&, in_file = group_in_file](const formats::ColumnarFile& file) {
    table = read_used(file, in_file, work);
  });
  check(static_cast<int64_t>(table.rows) == ends_[group] - begin_of(group),
        "the rows of a row group have changed");
  return table;
}

formats::DataTable RowGroups::read_rows(size_t number, std::span<const int64_t> rows) const {
  const auto begin = number == 0 ? 0 : file_ends_[number - 1];
  std::vector<formats::RowPlace> places;
  for (const auto row : rows) {
    const auto group = group_of(begin + row);
    const auto used = begin + row - begin_of(group);
    const auto left = left_.find(group);
    places.push_back({groups_[group].second,
                      left == left_.end() ? used : left->second[static_cast<size_t>(used)]});
  }
  formats::DataTable table;
  files_.use(number,
             [&](const formats::ColumnarFile& file) { table = file.read_rows(places, used_); });
  drop_missing(config_, table);
  check(table.rows == rows.size(), "the rows of a file have changed");
  return table;
}

formats::DataTable RowGroups::read_used(const formats::ColumnarFile& file, size_t group,
                                        const ParallelFor& work) const {
  auto table = file.read(group, read_, work);
  if (!filter_.empty()) {
    std::vector<bool> kept(table.rows, true);
    apply_filter(filter_, table, kept);
    if (std::ranges::find(kept, false) != kept.end()) keep_rows(table, kept);
  }
  choose_columns(table, used_);
  drop_missing(config_, table);
  return table;
}

}  // namespace lockstep::data
