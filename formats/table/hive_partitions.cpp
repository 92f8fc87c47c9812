#include "formats/table/hive_partitions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "core/http/http_address.h"
#include "core/printable.h"
#include "formats/path_list.h"
#include "formats/table/cell_value.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNoValue = "__HIVE_DEFAULT_PARTITION__";
constexpr size_t kMaxKeys = 32;

using Extensions = std::vector<std::string>;

bool has_one_of(const Extensions& extensions, const fs::path& file) {
  return std::ranges::find(extensions, file.extension().string()) != extensions.end();
}

// "month=3": {"month", "3"}; "city=New%20York": {"city", "New York"}; nullopt: another name.
std::optional<std::pair<std::string, std::string>> key_in(const std::string& folder) {
  const auto equals = folder.find('=');
  if (equals == 0 || equals == folder.npos) return std::nullopt;
  return std::pair(folder.substr(0, equals), percent_decoded(folder.substr(equals + 1)));
}

void list_partitions(const fs::path& folder, const Extensions& extensions, PartitionFile& place,
                     std::vector<PartitionFile>& out) {
  std::error_code error;
  std::vector<fs::path> entries;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    entries.push_back(at->path());
  if (error)
    throw environment_error(
        fmt::format("{}: cannot be listed: {}", printable(folder.string(), 400), error.message()));
  for (const auto& entry : entries) {
    const auto key = key_in(entry.filename().string());
    std::error_code ignored;
    if (key && place.keys.size() < kMaxKeys && fs::is_directory(entry, ignored)) {
      place.keys.push_back(*key);
      list_partitions(entry, extensions, place, out);
      place.keys.pop_back();
    } else if (has_one_of(extensions, entry)) {
      out.push_back({entry, place.keys});
    }
  }
}

// In a bucket.
std::vector<PartitionFile> stored_partitions(const fs::path& root, const Extensions& extensions) {
  const auto depth = std::ranges::distance(parse_store_path(root).path());
  std::vector<PartitionFile> files;
  const auto is_wanted = [&](const fs::path& file) { return has_one_of(extensions, file); };
  for (const auto& path : list_files(root, is_wanted, true)) {
    PartitionFile file{path, {}};
    const auto folder = path.parent_path();
    if (std::ranges::distance(folder) < depth) continue;
    const auto is_key = [&](const fs::path& name) {
      const auto key = key_in(name.string());
      if (key) file.keys.push_back(*key);
      return key.has_value();
    };
    if (std::all_of(std::next(folder.begin(), depth), folder.end(), is_key)) files.push_back(file);
  }
  return files;
}

bool have_same_keys(const PartitionFile& a, const PartitionFile& b) {
  return std::ranges::equal(a.keys, b.keys, {}, &std::pair<std::string, std::string>::first,
                            &std::pair<std::string, std::string>::first);
}

// A partition key of a file: a column with a constant value.
struct ConstantColumn {
  std::string name, text;
  bool is_text = false, is_missing = false;
  double number = 0;

  TableColumn rows(size_t count) const {
    TableColumn column{.name = name, .is_text = is_text, .is_complete = !is_missing};
    if (!is_text)
      column.numbers.assign(count, number);
    else
      column.codes.assign(count, is_missing ? -1 : 0);
    if (is_text && !is_missing) column.words = {text};
    return column;
  }

  bool may_pass(const ColumnTest& test) const {
    if (is_missing) return false;
    if (is_text) return test.holds(text, test.text);
    return std::isnan(test.number) || test.holds(number, test.number);
  }
};

class PartitionedFile final : public ColumnarFile {
 public:
  PartitionedFile(std::unique_ptr<ColumnarFile> file, std::vector<ConstantColumn> keys)
      : file_(std::move(file)), keys_(std::move(keys)) {}

  std::vector<std::string> columns() const override {
    auto names = file_->columns();
    for (const auto& key : keys_) names.push_back(key.name);
    return names;
  }
  std::vector<std::string> index_columns() const override { return file_->index_columns(); }
  std::vector<int64_t> row_groups() const override { return file_->row_groups(); }
  bool has_row_access() const override { return file_->has_row_access(); }
  ColumnKind kind_of(const std::string& column) const override {
    const auto* key = key_of(column);
    if (key) return key->is_text ? ColumnKind::Unknown : ColumnKind::Numbers;
    return file_->kind_of(column);
  }
  bool has_counts(const std::string& column) const override {
    const auto* key = key_of(column);
    if (!key) return file_->has_counts(column);
    return !key->is_text && key->number >= 0 && key->number == std::floor(key->number);
  }

  DataTable read(size_t row_group, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    return with_keys(file_->read(row_group, stored(columns), work), columns);
  }
  DataTable read_rows(std::span<const RowPlace> rows,
                      const std::vector<std::string>& columns) const override {
    return with_keys(file_->read_rows(rows, stored(columns)), columns);
  }
  std::vector<uint8_t> read_bytes(const RowPlace& row, const std::string& column) const override {
    return file_->read_bytes(row, column);
  }

  bool may_pass(size_t row_group, const RowFilter& filter) const override {
    RowFilter rest;
    for (const auto& test : filter) {
      const auto* key = key_of(test.column);
      if (key && !key->may_pass(test)) return false;
      if (!key) rest.push_back(test);
    }
    return file_->may_pass(row_group, rest);
  }

  bool is_complete(size_t row_group, const std::vector<std::string>& columns) const override {
    for (const auto& name : columns)
      if (const auto* key = key_of(name); key && key->is_missing) return false;
    return file_->is_complete(row_group, stored(columns));
  }

 private:
  const ConstantColumn* key_of(const std::string& name) const {
    const auto found = std::ranges::find(keys_, name, &ConstantColumn::name);
    return found == keys_.end() ? nullptr : &*found;
  }
  std::vector<std::string> stored(const std::vector<std::string>& columns) const {
    std::vector<std::string> names;
    for (const auto& name : columns)
      if (!key_of(name)) names.push_back(name);
    return names;
  }

  DataTable with_keys(DataTable table, const std::vector<std::string>& columns) const {
    for (const auto& name : columns)
      if (const auto* key = key_of(name)) table.columns.push_back(key->rows(table.rows));
    choose_columns(table, columns);
    return table;
  }

  std::unique_ptr<ColumnarFile> file_;
  std::vector<ConstantColumn> keys_;
};

bool is_number(const std::string& value) {
  const auto cell = read_cell(value);
  return value == kNoValue || (cell.kind == CellKind::Number && std::isfinite(cell.value));
}

}  // namespace

std::vector<PartitionFile> partition_files(const std::string& path, const Extensions& extensions) {
  if (!is_folder(path)) return {{without_options(path), {}}};
  std::vector<PartitionFile> files;
  PartitionFile place;
  if (has_scheme(path))
    files = stored_partitions(path, extensions);
  else
    list_partitions(path, extensions, place, files);
  if (files.empty()) {
    std::string valid;
    for (const auto& extension : extensions) valid += (valid.empty() ? "*" : ", *") + extension;
    throw config_error(
        fmt::format("{}: no {} files in this directory or its key=value "
                    "subdirectories",
                    printable(path, 400), valid));
  }
  std::ranges::sort(files, {}, &PartitionFile::path);
  for (const auto& file : files)
    if (!have_same_keys(file, files.front()))
      throw config_error(fmt::format(
          "{}: its partition keys (key=value directories) differ from those of {}; separate them",
          printable(file.path.string(), 400), printable(files.front().path.string(), 400)));
  return files;
}

PartitionedFiles::PartitionedFiles(std::vector<PartitionFile> files, Open open_file,
                                   std::vector<IndexedColumn> columns)
    : files_(std::move(files)), open_file_(std::move(open_file)), columns_(std::move(columns)) {
  for (size_t key = 0; key < files_.front().keys.size(); ++key)
    keys_are_text_.push_back(!std::ranges::all_of(
        files_, [&](const auto& file) { return is_number(file.keys[key].second); }));
}

std::unique_ptr<ColumnarFile> PartitionedFiles::open(size_t number) const {
  const auto& path = files_[number].path;
  const auto& keys = files_[number].keys;
  auto file = open_file_(path);
  if (keys.empty()) return file;
  std::vector<ConstantColumn> constants;
  const auto names = file->columns();
  for (size_t key = 0; key < keys.size(); ++key) {
    const auto& [name, value] = keys[key];
    if (std::ranges::find(names, name) != names.end())
      throw config_error(fmt::format("{}: '{}' is both a column and a partition key",
                                     printable(path.string(), 400), printable(name)));
    const bool missing = value == kNoValue;
    constants.push_back({.name = name,
                         .text = value,
                         .is_text = keys_are_text_[key],
                         .is_missing = missing,
                         .number = missing ? std::numeric_limits<double>::quiet_NaN()
                                           : cell_value(value).value_or(0)});
  }
  return std::make_unique<PartitionedFile>(std::move(file), std::move(constants));
}

}  // namespace lockstep::formats
