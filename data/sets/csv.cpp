// Dataset "csv": a table in a text file, plain or gzip, kept in memory column by column.
// Gives: "features", "categories" and "label" as data/table_batch.h says.
#include <fmt/format.h>

#include <numeric>
#include <optional>

#include "core/config_map.h"
#include "core/error.h"
#include "core/printable.h"
#include "data/csv_file.h"
#include "data/dataset.h"
#include "data/table_batch.h"

namespace lockstep {
namespace {

struct CsvConfig {
  std::string path;
  TableConfig table;
  std::string separator = ",";
  bool header = true;
  std::vector<std::string> names;
  ConfigMap<std::string> types;
  std::vector<std::string> missing_values = CsvFormat{}.missing;
  int64_t max_bad_rows = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, CsvConfig& c) {
  v("path", c.path, "the file, plain or gzip", required());
  fields(v, c.table);
  v("separator", c.separator, "one character between cells");
  v("header", c.header, "the first line has the names of the columns");
  v("names", c.names, "the names of the columns, where there is no header");
  v("types", c.types,
    "column: number or text, for those whose type is not to be inferred (number when all cells "
    "are)",
    one_of({"number", "text"}));
  v("missing_values", c.missing_values, "cells that mean that there is no value");
  v("max_bad_rows", c.max_bad_rows,
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
                   .max_bad_rows = config.max_bad_rows};
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

DataTable used_table(const CsvConfig& config) {
  auto table = read_csv_file(config.path, format_of(config));
  for (const auto& [column, type] : config.types) table.column(column);
  std::vector<std::string> names;
  for (const auto& column : table.columns) names.push_back(column.name);
  std::vector<TableColumn> used;
  for (const auto& name : used_columns(config.table, names, table.name))
    used.push_back(table.column(name));
  table.columns = std::move(used);
  if (config.limit && static_cast<size_t>(*config.limit) > table.rows)
    throw config_error(fmt::format("{}: limit {} is more than the {} rows there are", table.name,
                                   *config.limit, table.rows));
  auto kept = rows_to_keep(config.table, table);
  size_t left = config.limit ? static_cast<size_t>(*config.limit) : table.rows;
  for (size_t row = 0; row < kept.size(); ++row) {
    kept[row] = kept[row] && left > 0;
    left -= kept[row];
  }
  keep_rows(table, kept);
  if (table.rows == 0)
    throw config_error(fmt::format("{}: no row is left: each has a missing value", table.name));
  return table;
}

class CsvDataset final : public Dataset {
 public:
  using Config = CsvConfig;

  explicit CsvDataset(const Config& config)
      : config_(config.table),
        table_(used_table(config)),
        size_(static_cast<int64_t>(table_->rows)) {}

  int64_t size() const override { return size_; }

  void learn(const Dataset& train_set, std::span<const int64_t> training) override {
    if (const auto* other = dynamic_cast<const CsvDataset*>(&train_set); other && other != this) {
      check(other->encoding_.has_value(), "the training set learns first");
      encoding_ = other->encoding_;
    } else {
      TableEncoding::Statistics statistics(config_);
      if (other) {
        statistics.add(*table_, training);
      } else {
        std::vector<int64_t> all(static_cast<size_t>(size_));
        std::iota(all.begin(), all.end(), 0);
        statistics.add(*table_, all);
      }
      encoding_.emplace(statistics);
    }
    rows_ = encoding_->encode(*table_);
    table_.reset();
  }

  std::vector<FieldLayout> layout() const override { return table_layout(encoding()); }

  Batch get_batch(std::span<const int64_t> indices) const override {
    return gather(*this, {.indices = indices});
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size_, "sample index outside the dataset");
    std::vector<int64_t> places(request.indices.size());
    std::iota(places.begin(), places.end(), 0);
    gather_rows(encoding(), rows_, request.indices, places, fields);
  }

  std::vector<double> values(const std::string& what) const override {
    if (what != "label" || !encoding().has_label()) return {};
    return encoding().labels_are_classes()
               ? std::vector<double>(rows_.classes.begin(), rows_.classes.end())
               : std::vector<double>(rows_.values.begin(), rows_.values.end());
  }

 private:
  const TableEncoding& encoding() const {
    check(encoding_.has_value(), "learn() comes before the first batch");
    return *encoding_;
  }

  TableConfig config_;
  std::optional<DataTable> table_;  // until learn()
  int64_t size_;
  std::optional<TableEncoding> encoding_;
  EncodedRows rows_;
};

REGISTER_DATASET("csv", CsvDataset, "a table in a text file: numbers, texts, missing values");

}  // namespace
}  // namespace lockstep
