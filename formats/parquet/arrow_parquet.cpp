// Reads Parquet files with Arrow's C++ libraries. Only this folder, which is a separate shared
// library, depends on Arrow.
#include <arrow/api.h>
#include <arrow/io/file.h>
#include <arrow/io/memory.h>
#include <fmt/format.h>
#include <parquet/arrow/reader.h>
#include <parquet/file_reader.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <type_traits>

#include "core/printable.h"
#include "core/system/mutex.h"
#include "formats/parquet/arrow_columns.h"
#include "formats/parquet/arrow_errors.h"
#include "formats/parquet/column_limits.h"
#include "formats/parquet/durations.h"
#include "formats/parquet/list_numbers.h"
#include "formats/parquet/memory_limits.h"
#include "formats/parquet/pandas_index.h"
#include "formats/parquet/plain_numbers.h"
#include "formats/table/columnar_file.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

// Idle readers.
class ReaderPool {
 public:
  std::unique_ptr<parquet::arrow::FileReader> take() {
    const MutexLock lock(mutex_);
    if (free_.empty()) return nullptr;
    auto reader = std::move(free_.back());
    free_.pop_back();
    return reader;
  }
  void put(std::unique_ptr<parquet::arrow::FileReader> reader) {
    const MutexLock lock(mutex_);
    free_.push_back(std::move(reader));
  }

 private:
  Mutex mutex_;
  std::vector<std::unique_ptr<parquet::arrow::FileReader>> free_ GUARDED_BY(mutex_);
};

class ArrowParquetFile final : public ColumnarFile {
 public:
  ArrowParquetFile(const std::filesystem::path& path, const std::string& name)
      : path_(path), name_(name) {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0)
      throw errno == ENOENT || errno == ENOTDIR
          ? config_error(name_ + ": no such file")
          : environment_error(name_ + ": cannot be read: " + std::strerror(errno));
    if (!S_ISREG(status.st_mode)) throw config_error(name_ + ": is not a regular file");
    opened_ = identity_in(status);
    use_metadata(unchanged([&] { return parquet::ReadMetaData(open()); }));
  }

  // What the footer of a file with this many bytes says. `footer`: the end of the file, with all of it.
  // read() must not be called.
  ArrowParquetFile(std::span<const uint8_t> footer, int64_t bytes, const std::string& name)
      : name_(name), opened_{.size = bytes} {
    const auto source = std::make_shared<arrow::io::BufferReader>(
        arrow::Buffer::Wrap(footer.data(), footer.size()));
    use_metadata(guarded(name_, [&] { return parquet::ReadMetaData(source); }));
  }

  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    const auto* root = schema_->group_node();
    for (int i = 0; i < root->field_count(); ++i) names.push_back(root->field(i)->name());
    return names;
  }

  std::vector<std::string> index_columns() const override {
    return guarded(name_, [&] { return pandas_index(metadata_->key_value_metadata()); });
  }

  std::vector<int64_t> row_groups() const override {
    return guarded(name_, [&] {
      std::vector<int64_t> rows;
      for (int group = 0; group < metadata_->num_row_groups(); ++group)
        rows.push_back(metadata_->RowGroup(group)->num_rows());
      return rows;
    });
  }

  DataTable read(size_t row_group, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    verify_unchanged();
    return unchanged([&] { return read_columns(row_group, columns, work); });
  }

  ColumnKind kind_of(const std::string& column) const override {
    return guarded(name_, [&] { return kind_by_type(*schema_->Column(index_of(column))); });
  }

  bool has_counts(const std::string& column) const override {
    return guarded(name_, [&] {
      const auto index = index_of(column);
      const auto& leaf = *schema_->Column(index);
      if (!has_plain_numbers(leaf) || may_have_nan(leaf) || units_[static_cast<size_t>(index)] != 1)
        return false;
      for (int group = 0; group < metadata_->num_row_groups(); ++group) {
        const auto limits = limits_in(static_cast<size_t>(group), column);
        if (!(limits.min >= 0 && limits.max <= kMaxExactInteger)) return false;
      }
      return true;
    });
  }

  bool may_pass(size_t row_group, const RowFilter& filter) const override {
    return guarded(name_, [&] {
      for (const auto& test : filter) {
        const auto limits = limits_in(row_group, test.column);
        if (limits.has_words && !test.may_hold(limits.first, limits.last, test.text)) return false;
        const bool numbers =
            !std::isnan(limits.min) && !std::isnan(limits.max) && !std::isnan(test.number);
        if (numbers && !test.may_hold(limits.min, limits.max, test.number)) return false;
      }
      return true;
    });
  }

  bool is_complete(size_t row_group, const std::vector<std::string>& columns) const override {
    return guarded(name_, [&] {
      for (const auto& column : columns) {
        const auto statistics = statistics_in(row_group, column);
        if (schema_->Column(index_of(column))->max_repetition_level() > 0) return false;
        if (!statistics || !statistics->HasNullCount() || statistics->null_count() != 0)
          return false;
        // NaN counts as missing, but is not part of the statistics.
        if (may_have_nan(*schema_->Column(index_of(column)))) return false;
      }
      return true;
    });
  }

 private:
  void use_metadata(std::shared_ptr<parquet::FileMetaData> metadata) {
    metadata_ = std::move(metadata);
    guarded(name_, [&] {
      schema_ = metadata_->schema();
      verify_rows(opened_.size);
      units_ = units_of_columns(*schema_, metadata_->key_value_metadata(), name_);
    });
  }

  // Opened for each read, because the number of files may exceed the limit of open files.
  std::shared_ptr<arrow::io::ReadableFile> open() const {
    auto file = arrow::io::ReadableFile::Open(path_.string());
    accept(file.status(), name_);
    return *file;
  }

  struct Identity {
    int64_t size = 0, seconds = 0, nanoseconds = 0;
    uint64_t inode = 0;
    bool operator==(const Identity&) const = default;
  };

  static Identity identity_in(const struct stat& status) {
    return {status.st_size, status.st_mtim.tv_sec, status.st_mtim.tv_nsec, status.st_ino};
  }
  void verify_unchanged() const {
    struct stat status {};
    if (::stat(path_.c_str(), &status) != 0)
      throw environment_error(name_ + ": was deleted while it was being read");
    if (identity_in(status) != opened_)
      throw environment_error(name_ + ": was changed while it was being read");
  }

  // Returns act(). If the file was changed meanwhile, throws that error instead of any other.
  template <class Act>
  std::invoke_result_t<Act> unchanged(const Act& act) const {
    try {
      auto result = guarded(name_, act);
      verify_unchanged();
      return result;
    } catch (const Error&) {
      verify_unchanged();
      throw;
    }
  }

  // Verifies the row counts of the metadata.
  void verify_rows(int64_t file_bytes) const {
    const auto refused = [&](const std::string& why) {
      return config_error(fmt::format("{}: not a usable Parquet file: {}", name_, why));
    };
    const auto limit = max_rows(file_bytes);
    int64_t sum = 0;
    for (int group = 0; group < metadata_->num_row_groups(); ++group) {
      const auto rows = metadata_->RowGroup(group)->num_rows();
      if (rows < 0 || rows > limit - sum)
        throw refused(fmt::format("row group {} claims {} rows in a file of {} bytes", group, rows,
                                  file_bytes));
      sum += rows;
    }
    if (sum != metadata_->num_rows())
      throw refused(
          fmt::format("it claims {} rows, but its row groups have {}", metadata_->num_rows(), sum));
  }

  // The metadata of a column in a row group, verified against the schema.
  std::unique_ptr<parquet::ColumnChunkMetaData> chunk_of(size_t row_group,
                                                         const std::string& column) const {
    const auto index = index_of(column);
    const auto group = metadata_->RowGroup(static_cast<int>(row_group));
    if (group->num_columns() != schema_->num_columns())
      throw config_error(fmt::format("{}: row group {}: {} columns, but the schema has {}", name_,
                                     row_group, group->num_columns(), schema_->num_columns()));
    auto chunk = group->ColumnChunk(index);
    if (chunk->type() != schema_->Column(index)->physical_type())
      throw config_error(
          fmt::format("{}: row group {}: column '{}' has a different type in the schema", name_,
                      row_group, printable(column)));
    if (schema_->Column(index)->max_repetition_level() == 0 &&
        chunk->num_values() != group->num_rows())
      throw config_error(fmt::format("{}: row group {}: column '{}' claims {} values for {} rows",
                                     name_, row_group, printable(column), chunk->num_values(),
                                     group->num_rows()));
    return chunk;
  }

  // The leaf index of a top-level column, which is not nested or is a list of numbers.
  int index_of(const std::string& column) const {
    std::optional<int> found;
    for (int i = 0; i < schema_->num_columns(); ++i) {
      const auto& leaf = *schema_->Column(i);
      const auto& top = *schema_->GetColumnRoot(i);
      if (top.name() != column || (top.is_group() && !has_lists_of_numbers(leaf))) continue;
      if (found)
        throw config_error(
            fmt::format("{}: two columns are called '{}'", name_, printable(column)));
      found = i;
    }
    if (found) return *found;
    throw config_error(
        fmt::format("{}: column '{}' is nested; supported: numbers, booleans, dates, times, "
                    "strings and lists of numbers; list the columns to use",
                    name_, printable(column)));
  }

  // Its index among the top-level columns; nested columns have several leaves.
  int field_of(const std::string& column) const {
    return schema_->group_node()->FieldIndex(*schema_->GetColumnRoot(index_of(column)));
  }

  std::shared_ptr<parquet::Statistics> statistics_in(size_t row_group,
                                                     const std::string& column) const {
    return chunk_of(row_group, column)->statistics();
  }

  ColumnLimits limits_in(size_t row_group, const std::string& column) const {
    const auto statistics = statistics_in(row_group, column);
    const auto index = index_of(column);
    const bool is_list = schema_->Column(index)->max_repetition_level() > 0;
    if (!statistics || is_list) return {};
    auto limits = limits_of(*statistics, *schema_->Column(index));
    limits.min /= units_[static_cast<size_t>(index)];
    limits.max /= units_[static_cast<size_t>(index)];
    return limits;
  }

  using Reader = parquet::arrow::FileReader;

  // Arrow cannot read strings in these encodings as dictionaries.
  bool may_be_dictionary(size_t row_group, const std::string& column) const {
    const auto encodings = chunk_of(row_group, column)->encodings();
    return std::ranges::none_of(encodings, [](auto encoding) {
      return encoding == parquet::Encoding::DELTA_BYTE_ARRAY ||
             encoding == parquet::Encoding::DELTA_LENGTH_BYTE_ARRAY;
    });
  }

  std::unique_ptr<Reader> reader_of(size_t row_group,
                                    const std::vector<std::string>& columns) const {
    parquet::ArrowReaderProperties properties(/*use_threads=*/false);
    for (const auto& column : columns)
      properties.set_read_dictionary(index_of(column), may_be_dictionary(row_group, column));
    parquet::ReaderProperties checked;
    checked.set_page_checksum_verification(true);  // for pages that have a checksum
    auto reader =
        Reader::Make(arrow::default_memory_pool(),
                     parquet::ParquetFileReader::Open(open(), checked, metadata_), properties);
    accept(reader.status(), name_);
    return std::move(*reader);
  }

  DataTable read_columns(size_t row_group, const std::vector<std::string>& columns,
                         const ParallelFor& work) const {
    DataTable table{.name = fmt::format("{}: row group {}", name_, row_group)};
    table.rows = static_cast<size_t>(metadata_->RowGroup(static_cast<int>(row_group))->num_rows());
    verify_group_size(table.rows, columns.size(), opened_.size, table.name, "row group");
    std::vector<std::vector<TableColumn>> parts(columns.size());
    ReaderPool readers;  // readers are not thread-safe
    work(columns.size(), [&](size_t number) {
      guarded(name_, [&] {
        auto reader = readers.take();
        if (!reader) reader = reader_of(row_group, columns);
        parts[number] = read_column(*reader, row_group, columns[number], table);
        readers.put(std::move(reader));
      });
    });
    for (auto& part : parts) std::ranges::move(part, std::back_inserter(table.columns));
    return table;
  }

  // Returns one column, or one per element of a list.
  std::vector<TableColumn> read_column(Reader& reader, size_t row_group, const std::string& column,
                                       const DataTable& table) const {
    chunk_of(row_group, column);
    const auto index = index_of(column);
    const auto& leaf = *schema_->Column(index);
    if (has_plain_numbers(leaf) || leaf.max_repetition_level() > 0) {
      const auto group = reader.parquet_reader()->RowGroup(static_cast<int>(row_group));
      const auto stored = group->Column(index);
      auto read = has_plain_numbers(leaf)
                      ? std::vector{plain_column(*stored, column, table)}
                      : read_lists(*stored, column, table, max_group_values(opened_.size));
      convert_to_seconds(read, units_[static_cast<size_t>(index)]);
      return read;
    }
    std::shared_ptr<arrow::ChunkedArray> chunks;
    accept(reader.RowGroup(static_cast<int>(row_group))->Column(field_of(column))->Read(&chunks),
           table.name);
    if (!chunks)
      throw config_error(
          fmt::format("{}: column '{}' cannot be read", table.name, printable(column)));
    // Arrow decodes corrupt pages to inconsistent arrays, e.g. with dictionary indices out of
    // range.
    accept(chunks->ValidateFull(), table.name);
    return {converted(*chunks, column, table)};
  }

  static Error wrong_count(const std::string& name, size_t count, const DataTable& table) {
    return config_error(fmt::format("{}: column '{}' has {} values for {} rows", table.name,
                                    printable(name), count, table.rows));
  }

  static TableColumn plain_column(parquet::ColumnReader& reader, const std::string& name,
                                  const DataTable& table) {
    auto numbers = read_plain_numbers(reader, table.rows);
    if (!numbers)
      throw config_error(
          fmt::format("{}: column '{}' has corrupt pages", table.name, printable(name)));
    if (numbers->values.size() != table.rows)
      throw wrong_count(name, numbers->values.size(), table);
    return {
        .name = name, .numbers = std::move(numbers->values), .is_complete = numbers->are_all_there};
  }

  TableColumn converted(const arrow::ChunkedArray& chunks, const std::string& name,
                        const DataTable& table) const {
    TableColumn column{.name = name};
    if (chunks.length() != static_cast<int64_t>(table.rows))
      throw wrong_count(name, static_cast<size_t>(chunks.length()), table);
    column.is_text = is_text(*chunks.type());
    WordNumbers known;
    for (const auto& chunk : chunks.chunks())
      if (!append_values(*chunk, column, known))
        throw config_error(
            fmt::format("{}: column '{}' is {}; supported: numbers, booleans, dates, times, "
                        "strings and lists of numbers",
                        table.name, printable(name), printable(chunks.type()->ToString())));
    column.is_complete = !column.has_missing();
    return column;
  }

  std::filesystem::path path_;
  std::string name_;  // of the file, for messages
  std::shared_ptr<parquet::FileMetaData> metadata_;
  const parquet::SchemaDescriptor* schema_ = nullptr;
  std::vector<double> units_;  // for each leaf: see units_of_columns()
  Identity opened_;            // if it was opened by its path; else only the size
};

}  // namespace
}  // namespace lockstep::formats

extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet_footer(
    std::span<const uint8_t> footer, int64_t bytes, const std::string& name) {
  return new lockstep::formats::ArrowParquetFile(footer, bytes, name);
}

extern "C" lockstep::formats::ColumnarFile* lockstep_open_parquet(const std::filesystem::path& path,
                                                                  const std::string& name) {
  return new lockstep::formats::ArrowParquetFile(path, name);
}
