// Dataset "csv": a table in a text file, plain or compressed, kept in memory column by column. Or a
// folder of such files, which are shards read on demand and may together be larger than memory.
// Fields: "features", "categories" and "label", see data/table_batch.h.
#include <fmt/format.h>

#include <filesystem>
#include <optional>

#include "core/config/config_map.h"
#include "core/printable.h"
#include "data/table_dataset.h"
#include "formats/table/csv_file.h"
#include "lockstep/config_value.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

namespace fs = std::filesystem;

enum class DecimalMark { Point, Comma };
constexpr auto choices(DecimalMark) { return std::array{".", ","}; }

enum class CellType { Number, Text };
constexpr auto choices(CellType) { return std::array{"number", "text"}; }

struct CsvConfig {
  std::string path;
  formats::TableConfig table;
  std::optional<std::string> separator;
  DecimalMark decimal = DecimalMark::Point;
  bool header = true;
  std::vector<std::string> names;
  ConfigMap<CellType> types;
  std::vector<std::string> missing_values = formats::CsvFormat{}.missing;
  int64_t max_bad_samples = 0;
  std::optional<int64_t> limit;
};

template <class V>
void fields(V& v, CsvConfig& c) {
  v("path", c.path,
    "the file, plain or compressed with gzip or zstd, or a folder of *.csv, *.tsv, *.csv.gz, ... "
    "(shards)",
    required());
  fields(v, c.table);
  v("separator", c.separator,
    "separator of cells, one character (default: a tab for *.tsv and *.tab, else a comma)");
  v("decimal", c.decimal, "decimal separator of numbers");
  v("header", c.header, "whether the first line has the names of the columns");
  v("names", c.names, "the names of the columns, if there is no header");
  v("types", c.types,
    "types of columns, {column: number or text}; other types are inferred (number if all cells are "
    "numbers, booleans, or dates and times)");
  v("missing_values", c.missing_values, "cells that mark a missing value");
  v("max_bad_samples", c.max_bad_samples,
    "skip up to this many rows that cannot be read; one more is an error", at_least(0));
  v("limit", c.limit, "use only the first N rows", at_least(1));
}

// A tab for files with such an extension, a comma for others.
char separator_of(const CsvConfig& config, const fs::path& file) {
  if (!config.separator) {
    const auto name = file.filename().string();
    return name.find(".tsv") != std::string::npos || name.ends_with(".tab") ? '\t' : ',';
  }
  if (config.separator->size() != 1 || *config.separator == "\"" || *config.separator == "\n")
    throw config_error(fmt::format("dataset csv: separator '{}' must be one character, no quote",
                                   printable(*config.separator)));
  return config.separator->front();
}

formats::CsvFormat format_of(const CsvConfig& config, const fs::path& file) {
  if (config.header != config.names.empty())
    throw config_error(config.header ? "dataset csv: names requires a file without a header; set "
                                       "header: false"
                                     : "dataset csv: header: false needs the names of the columns");
  formats::CsvFormat format{.separator = separator_of(config, file),
                            .decimal = *name_of(config.decimal),
                            .header = config.header,
                            .names = config.names,
                            .missing = config.missing_values};
  if (!config.table.columns.empty()) {
    format.columns = config.table.columns;
    if (config.table.label) format.columns.push_back(*config.table.label);
  }
  for (const auto& [column, type] : config.types)
    format.is_text.emplace_back(column, type == CellType::Text);
  return format;
}

// `max_bad_rows`: remaining number for this file.
formats::DataTable read_used_columns(const CsvConfig& config, const fs::path& file,
                                     int64_t max_bad_rows) {
  auto format = format_of(config, file);
  format.max_bad_rows = max_bad_rows;
  auto table = read_csv_file(file, format);
  for (const auto& [column, type] : config.types) table.column(column);
  const auto names = column_names(table);
  // pandas writes row numbers as a first column without a name, and reads them back under this
  // name.
  if (names.front().empty() || names.front() == "Unnamed: 0") table.index_columns = {names.front()};
  choose_columns(table, used_columns(config.table, names, table.name, table.index_columns));
  return table;
}

class CsvDataset final : public TableDataset {
 public:
  using Config = CsvConfig;

  explicit CsvDataset(const Config& config)
      : TableDataset(config.table,
                     {.path = config.path,
                      .files = table_files(config.path, {".csv", ".csv.gz", ".csv.zst", ".tsv",
                                                         ".tsv.gz", ".tsv.zst"}),
                      .read =
                          [config](const fs::path& file, int64_t max_bad_rows) {
                            return read_used_columns(config, file, max_bad_rows);
                          },
                      .max_bad_rows = config.max_bad_samples,
                      .limit = config.limit}) {}
};

REGISTER_DATASET("csv", CsvDataset, "a table in a text file: numbers, strings, missing values");

}  // namespace
}  // namespace lockstep::data
