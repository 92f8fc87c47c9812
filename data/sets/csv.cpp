// Dataset "csv": a table in a text file, plain or gzip, kept in memory column by column. Or a
// folder of them, which are shards: each is read when it is needed, so all may be larger than
// memory. Gives: "features", "categories" and "label" as data/table_batch.h says.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <numeric>
#include <optional>

#include "core/config_map.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/block_cache.h"
#include "data/csv_file.h"
#include "data/dataset.h"
#include "data/mapped_file.h"
#include "data/sample_runs.h"
#include "data/table_batch.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

struct CsvConfig {
  std::string path;
  TableConfig table;
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> names;
  ConfigMap<std::string> types;
  std::vector<std::string> missing_values = CsvFormat{}.missing;
  int64_t max_bad_samples = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, CsvConfig& c) {
  v("path", c.path, "the file, plain or gzip, or a folder of *.csv and *.csv.gz (shards)",
    required());
  fields(v, c.table);
  v("separator", c.separator, "one character between cells");
  v("header", c.header, "the first line has the names of the columns");
  v("names", c.names, "the names of the columns, where there is no header");
  v("types", c.types,
    "column: number or text, for those whose type is not to be inferred (number when all cells "
    "are)",
    one_of({"number", "text"}));
  v("missing_values", c.missing_values, "cells that mean that there is no value");
  v("max_bad_samples", c.max_bad_samples,
    "so many rows that cannot be read are left out; one more is an error", at_least(0));
  v("limit", c.limit, "use only the first rows, this many", at_least(1));
}

CsvFormat format_of(const CsvConfig& config) {
  if (config.separator.size() != 1 || config.separator == "\"" || config.separator == "\n")
    throw config_error(fmt::format("dataset csv: separator '{}' must be one character, no quote",
                                   printable(config.separator)));
  if (config.header != config.names.empty())
    throw config_error(config.header ? "dataset csv: names belong to a file without a header; set "
                                       "header: false"
                                     : "dataset csv: header: false needs the names of the columns");
  CsvFormat format{.separator = config.separator[0],
                   .header = config.header,
                   .names = config.names,
                   .missing = config.missing_values,
                   .max_bad_rows = config.max_bad_samples};
  if (!config.table.columns.empty()) {
    format.columns = config.table.columns;
    if (config.table.label) format.columns.push_back(*config.table.label);
  }
  for (const auto& [column, type] : config.types) {
    if (type != "number" && type != "text")
      throw config_error(fmt::format("dataset csv: types.{}: '{}'; valid: number, text",
                                     printable(column), printable(type)));
    format.is_text.emplace_back(column, type == "text");
  }
  return format;
}

std::vector<fs::path> csv_files(const std::string& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return {path};
  std::vector<fs::path> files;
  for (fs::directory_iterator at(path, error), end; !error && at != end; at.increment(error)) {
    const auto name = at->path().filename().string();
    if (name.ends_with(".csv") || name.ends_with(".csv.gz")) files.push_back(at->path());
  }
  const auto name = printable(path, 400);
  if (error)
    throw environment_error(fmt::format("{}: cannot be listed: {}", name, error.message()));
  if (files.empty())
    throw config_error(fmt::format("{}: no *.csv or *.csv.gz files in this folder", name));
  std::ranges::sort(files);
  return files;
}

// `bad_rows`: that other files have had.
DataTable used_table(const CsvConfig& config, const fs::path& file, int64_t bad_rows = 0) {
  auto format = format_of(config);
  format.max_bad_rows -= bad_rows;
  auto table = read_csv_file(file, format);
  for (const auto& [column, type] : config.types) table.column(column);
  std::vector<std::string> names;
  for (const auto& column : table.columns) names.push_back(column.name);
  std::vector<TableColumn> used;
  for (const auto& name : used_columns(config.table, names, table.name))
    used.push_back(table.column(name));
  table.columns = std::move(used);
  drop_missing(config.table, table);
  return table;
}

void keep_first_rows(DataTable& table, int64_t count) {
  std::vector<bool> kept(table.rows, false);
  std::fill_n(kept.begin(), count, true);
  if (static_cast<size_t>(count) < table.rows) keep_rows(table, kept);
}

std::vector<int64_t> all_rows(size_t count) {
  std::vector<int64_t> rows(count);
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

class CsvDataset final : public Dataset {
 public:
  using Config = CsvConfig;

  explicit CsvDataset(const Config& config)
      : config_(config),
        files_(csv_files(config.path)),
        blocks_([this](size_t file, SharedWork& work) {
          return encoding().encode(reread(file), pieces_of(work));
        }) {
    int64_t bad_rows = 0;
    for (const auto& file : files_) {
      identities_.push_back(MappedFile::identity_of(file));
      table_ = used_table(config, file, bad_rows);
      if (table_->bad_rows > 0)
        remarks_.push_back(
            fmt::format("{}: {} rows that cannot be read are left out; the first: {}", table_->name,
                        table_->bad_rows, table_->first_bad_row));
      bad_rows += table_->bad_rows;
      ends_.push_back(size() + static_cast<int64_t>(table_->rows));
    }
    if (is_sharded()) table_.reset();
    const auto name = printable(config.path, 400);
    if (size() == 0)
      throw config_error(fmt::format("{}: no row is left: each has a missing value", name));
    if (!config.limit) return;
    if (*config.limit > size())
      throw config_error(fmt::format("{}: limit {} is more than the {} rows there are", name,
                                     *config.limit, size()));
    for (auto& end : ends_) end = std::min(end, *config.limit);
    if (table_) keep_first_rows(*table_, size());
  }

  int64_t size() const override { return ends_.empty() ? 0 : ends_.back(); }
  std::vector<int64_t> groups() const override {
    return is_sharded() ? ends_ : std::vector<int64_t>{};
  }

  void learn(const Dataset& train_set, std::span<const int64_t> training) override {
    if (const auto* other = dynamic_cast<const CsvDataset*>(&train_set); other && other != this) {
      check(other->encoding_.has_value(), "the training set learns first");
      encoding_ = other->encoding_;
    } else {
      const auto all = other && !training.empty()
                           ? std::vector<int64_t>(training.begin(), training.end())
                           : all_rows(static_cast<size_t>(size()));
      TableEncoding::Statistics statistics(config_.table);
      for_each_shard(ends_, all, [&](size_t file, auto rows, auto) {
        statistics.add(table_ ? *table_ : reread(file), rows);
      });
      encoding_.emplace(statistics);
    }
    if (!table_) return;
    rows_ = encoding_->encode(*table_);
    table_.reset();
  }

  std::vector<FieldLayout> layout() const override { return table_layout(encoding()); }

  Batch get_batch(std::span<const int64_t> indices) const override {
    return gather(*this, {.indices = indices});
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size(), "sample index outside the dataset");
    for_each_shard(ends_, request.indices, [&](size_t file, auto rows, auto places) {
      if (!is_sharded()) return gather_rows(encoding(), rows_, rows, places, fields);
      blocks_.use(file, request.nearby_groups, [&](const EncodedRows& block) {
        gather_rows(encoding(), block, rows, places, fields);
      });
    });
  }

  std::vector<double> values(const std::string& what) const override {
    if (what != "label" || !encoding().has_label()) return {};
    std::vector<double> labels;
    if (!is_sharded()) add_labels(encoding(), rows_, labels);
    // Of shards: takes one more pass over the files.
    for (size_t file = 0; is_sharded() && file < files_.size(); ++file)
      add_labels(encoding(), encoding().encode(reread(file)), labels);
    return labels;
  }

  Json meaning() const override { return encoding().meaning(); }
  std::vector<std::string> remarks() const override { return remarks_; }

 private:
  bool is_sharded() const { return files_.size() > 1; }

  DataTable reread(size_t file) const {
    auto table = MappedFile::read_again(files_[file], identities_[file],
                                        [&] { return used_table(config_, files_[file]); });
    const auto count = ends_[file] - (file == 0 ? 0 : ends_[file - 1]);
    if (static_cast<int64_t>(table.rows) < count)
      throw environment_error(table.name + ": was changed while it was being read");
    keep_first_rows(table, count);
    return table;
  }

  const TableEncoding& encoding() const {
    check(encoding_.has_value(), "learn() comes before the first batch");
    return *encoding_;
  }

  Config config_;
  std::vector<fs::path> files_;
  std::vector<MappedFile::Identity> identities_;
  std::vector<int64_t> ends_;       // of the files' rows
  std::optional<DataTable> table_;  // of a single file, until learn()
  std::optional<TableEncoding> encoding_;
  EncodedRows rows_;  // of a single file
  mutable BlockCache<EncodedRows> blocks_;
  std::vector<std::string> remarks_;
};

REGISTER_DATASET("csv", CsvDataset, "a table in a text file: numbers, texts, missing values");

}  // namespace
}  // namespace lockstep
