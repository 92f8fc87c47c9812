#include "data/table_dataset.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/printable.h"
#include "data/sample_runs.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

void keep_first_rows(formats::DataTable& table, int64_t count) {
  std::vector<bool> kept(table.rows, false);
  std::fill_n(kept.begin(), count, true);
  if (static_cast<size_t>(count) < table.rows) keep_rows(table, kept);
}

std::vector<int64_t> all_rows(size_t count) {
  std::vector<int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

}  // namespace

std::vector<fs::path> table_files(const std::string& path,
                                  const std::vector<std::string>& endings) {
  if (!formats::is_folder(path)) return {formats::without_options(path)};
  auto files = formats::files_in(path, [&](const fs::path& file) {
    const auto name = file.filename().string();
    return std::ranges::any_of(endings, [&](const auto& ending) { return name.ends_with(ending); });
  });
  if (files.empty()) {
    std::string valid;
    for (const auto& ending : endings) valid += (valid.empty() ? "*" : ", *") + ending;
    throw config_error(
        fmt::format("{}: no table files in this folder; valid: {}", printable(path, 400), valid));
  }
  return files;
}

TableDataset::TableDataset(const formats::TableConfig& config, TableFiles files)
    : config_(config), files_(std::move(files)), blocks_([this](size_t file, SharedWork& work) {
        return encoding().encode(reread(file), parallel_for(work));
      }) {
  int64_t bad_rows = 0;
  for (const auto& file : files_.files) add_file(file, bad_rows);
  if (is_sharded()) table_.reset();
  const auto name = printable(files_.path, 400);
  if (size() == 0)
    throw config_error(fmt::format("{}: no rows are left: each has a missing value", name));
  if (!files_.limit) return;
  if (*files_.limit > size())
    throw config_error(fmt::format("{}: limit {} is larger than the number of rows, {}", name,
                                   *files_.limit, size()));
  for (auto& end : ends_) end = std::min(end, *files_.limit);
  if (table_) keep_first_rows(*table_, size());
}

void TableDataset::add_file(const fs::path& file, int64_t& bad_rows) {
  identities_.push_back(formats::MappedFile::identity_of(file));
  table_ = read_used(file, files_.max_bad_rows - bad_rows);
  if (table_->bad_rows > 0)
    warnings_.push_back(fmt::format("{}: {} rows that cannot be read are skipped; the first: {}",
                                    table_->name, table_->bad_rows, table_->first_bad_row));
  if (auto warning = index_warning(config_, table_->index_columns, table_->name);
      !warning.empty() && ends_.empty())
    warnings_.push_back(std::move(warning));
  bad_rows += table_->bad_rows;
  ends_.push_back(size() + static_cast<int64_t>(table_->rows));
}

formats::DataTable TableDataset::read_used(const fs::path& file, int64_t max_bad_rows) const {
  auto table = files_.read(file, max_bad_rows);
  drop_missing(config_, table);
  return table;
}

SampleInfo TableDataset::sample_info() const {
  return {.shards = is_sharded() ? ends_ : std::vector<int64_t>(),
          .reads_whole_shards = true,
          .labels = [this] { return labels(); }};
}

void TableDataset::fit(const Dataset& train_set, std::span<const int64_t> training) {
  if (const auto* other = dynamic_cast<const EncodedTable*>(&train_set); other && other != this) {
    encoding_ = other->encoding();
  } else {
    const auto all = other && !training.empty()
                         ? std::vector<int64_t>(training.begin(), training.end())
                         : all_rows(static_cast<size_t>(size()));
    formats::TableEncoding::Statistics statistics(config_);
    for_each_shard(ends_, all, [&](size_t file, auto rows, auto) {
      statistics.add(table_ ? *table_ : reread(file), rows);
    });
    encoding_.emplace(statistics);
  }
  if (!table_) return;
  rows_ = encoding_->encode(*table_);
  table_.reset();
}

void TableDataset::fill(const SampleRequest& request, std::span<const at::Tensor> fields) const {
  for (const auto index : request.indices)
    check(index >= 0 && index < size(), "sample index outside the dataset");
  for_each_shard(ends_, request.indices, [&](size_t file, auto rows, auto places) {
    if (!is_sharded()) return gather_rows(encoding(), rows_, rows, places, fields);
    blocks_.use(file, request.nearby_groups, [&](const formats::EncodedRows& block) {
      gather_rows(encoding(), block, rows, places, fields);
    });
  });
}

std::vector<double> TableDataset::labels() const {
  if (!encoding().has_label()) return {};
  std::vector<double> labels;
  if (!is_sharded()) add_labels(encoding(), rows_, labels);
  // Shards require another pass over the files.
  for (size_t file = 0; is_sharded() && file < files_.files.size(); ++file)
    add_labels(encoding(), encoding().encode(reread(file)), labels);
  return labels;
}

formats::DataTable TableDataset::reread(size_t file) const {
  auto table = formats::MappedFile::read_again(files_.files[file], identities_[file], [&] {
    return read_used(files_.files[file], files_.max_bad_rows);
  });
  const auto count = ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
  if (static_cast<int64_t>(table.rows) < count)
    throw environment_error(table.name + ": was changed while it was being read");
  keep_first_rows(table, count);
  return table;
}

const formats::TableEncoding& TableDataset::encoding() const {
  check(encoding_.has_value(), "fit() must be called before the first batch");
  return *encoding_;
}

}  // namespace lockstep::data
