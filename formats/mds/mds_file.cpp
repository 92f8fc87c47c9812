#include "formats/mds/mds_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "formats/mapped_file.h"
#include "formats/mds/mds_index.h"
#include "formats/mds/mds_rows.h"
#include "formats/path_list.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

constexpr const char* kIndexName = "index.json";
constexpr size_t kMaxPathShown = 400;

using MdsColumns = std::shared_ptr<const std::vector<MdsColumn>>;

class MdsFile final : public ColumnarFile {
  // Returns act() of the samples.
  template <class Act>
  auto use(const Act& act) const {
    return mapped_.read([&](std::span<const uint8_t> bytes) {
      std::string text;
      if (is_packed_) {
        text = unpacked(bytes, name_);
        bytes = {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
      }
      if (std::ssize(bytes) != shard_.raw_bytes)
        throw config_error(fmt::format(
            "{}: it has {} bytes{}, but {} in {}: it is truncated, or of another version", name_,
            bytes.size(), is_packed_ ? " unpacked" : "", shard_.raw_bytes, kIndexName));
      return act(MdsRows(bytes, *columns_, shard_.samples, name_));
    });
  }

 public:
  MdsFile(const fs::path& path, MdsColumns columns, MdsShard shard, bool is_packed)
      : mapped_(path),
        name_(printable(path.string(), kMaxPathShown)),
        columns_(std::move(columns)),
        shard_(std::move(shard)),
        is_packed_(is_packed) {
    if (!is_packed_) use([](const MdsRows&) { return true; });
  }

  std::vector<std::string> columns() const override {
    std::vector<std::string> names;
    for (const auto& column : *columns_) names.push_back(column.name);
    return names;
  }
  std::vector<std::string> index_columns() const override { return {}; }
  std::vector<int64_t> row_groups() const override { return {shard_.samples}; }
  bool has_row_access() const override { return !is_packed_; }
  bool may_pass(size_t, const RowFilter&) const override { return true; }
  bool is_complete(size_t, const std::vector<std::string>&) const override { return false; }

  DataTable read(size_t, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    auto table = use([&](const MdsRows& samples) {  // which has verified their number
      std::vector<int64_t> rows(static_cast<size_t>(shard_.samples));
      std::iota(rows.begin(), rows.end(), 0);
      return table_of(samples, rows, columns, work);
    });
    mapped_.note_read(mapped_.bytes().size());
    return table;
  }
  DataTable read_rows(std::span<const RowPlace> places,
                      const std::vector<std::string>& columns) const override {
    std::vector<int64_t> rows;
    for (const auto& place : places) rows.push_back(place.row);
    auto table =
        use([&](const MdsRows& samples) { return table_of(samples, rows, columns, serial_for); });
    mapped_.note_read(0, rows.size());
    return table;
  }

  std::vector<uint8_t> read_bytes(const RowPlace& place, const std::string& column) const override {
    const auto number = number_of(column);
    if (is_packed_) throw config_error(kNoRowAccess);
    if ((*columns_)[number].kind != MdsKind::Bytes)
      throw config_error(fmt::format("{}: column '{}' is {}, not jpeg, png or bytes", name_,
                                     printable(column), printable((*columns_)[number].encoding)));
    auto copy = use([&](const MdsRows& rows) {
      std::vector<uint8_t> buffer;
      const auto [begin, size] = rows.place_of(place.row);
      const auto bytes = rows.value_in(mapped_.bytes_at(begin, size, buffer), number, place.row);
      return std::vector<uint8_t>(bytes.begin(), bytes.end());
    });
    mapped_.note_read(0);
    return copy;
  }

 private:
  DataTable table_of(const MdsRows& samples, std::span<const int64_t> rows,
                     const std::vector<std::string>& columns, const ParallelFor& work) const {
    DataTable table{.name = name_, .place = "sample"};
    table.rows = rows.size();
    for (const auto row : rows) table.places.push_back(row + 1);
    std::vector<std::vector<TableColumn>> parts(columns.size());
    work(columns.size(), [&](size_t i) { parts[i] = samples.column(number_of(columns[i]), rows); });
    for (auto& part : parts) std::ranges::move(part, std::back_inserter(table.columns));
    return table;
  }

  size_t number_of(const std::string& column) const {
    const auto found = std::ranges::find(*columns_, column, &MdsColumn::name);
    if (found == columns_->end())
      throw config_error(fmt::format("{}: no column '{}'{}", name_, printable(column),
                                     suggest(column, columns())));
    return static_cast<size_t>(found - columns_->begin());
  }

  MappedFile mapped_;
  std::string name_;
  MdsColumns columns_;
  MdsShard shard_;
  bool is_packed_;  // compressed
};

// The files of a directory, or of a prefix in a bucket, which is listed once.
class ShardFolder {
 public:
  explicit ShardFolder(const std::string& path) : root_(without_options(path)) {
    if (!has_scheme(path)) return;
    files_in(
        path,
        [&](const fs::path& file) {
          objects_.emplace(file.lexically_relative(root_).string(), file);
          return file == root_ / kIndexName;
        },
        true);
  }

  // Empty if it is missing.
  fs::path find(const std::string& name) const {
    if (name.empty()) return {};
    if (has_scheme(root_)) {
      const auto found = objects_.find(name);
      return found == objects_.end() ? fs::path() : found->second;
    }
    std::error_code error;
    auto file = root_ / name;
    return fs::status(file, error).type() == fs::file_type::not_found ? fs::path() : file;
  }

 private:
  fs::path root_;
  std::map<std::string, fs::path> objects_;
};

// "; set path to one of its folders with one: train, val"
std::string splits_in(const fs::path& folder) {
  std::string names;
  std::error_code error;
  if (has_scheme(folder)) return "";
  std::vector<std::string> found;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (std::error_code ignored; fs::exists(at->path() / kIndexName, ignored))
      found.push_back(printable(at->path().filename().string()));
  std::ranges::sort(found);
  for (const auto& name : found) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "" : fmt::format("; set path to one of its folders with one: {}", names);
}

ColumnKind kind_of(const MdsColumn& column) {
  switch (column.kind) {
    case MdsKind::Number:
    case MdsKind::NumberText: return ColumnKind::Numbers;
    case MdsKind::Text: return ColumnKind::Texts;
    case MdsKind::Array: return ColumnKind::Lists;
    case MdsKind::Bytes: return ColumnKind::Bytes;
    default: return ColumnKind::Unknown;
  }
}

MdsIndex read_index(const fs::path& path) {
  const MappedFile file(path);
  return file.read([&](std::span<const uint8_t> bytes) {
    return parse_mds_index({bytes.begin(), bytes.end()}, file.name());
  });
}

}  // namespace

PartitionedFiles mds_shards(const std::string& path) {
  const auto shown = printable(path, kMaxPathShown);
  if (!is_folder(path))
    throw config_error(shown + ": no such directory, or a file: set path to a directory with " +
                       kIndexName);
  const ShardFolder folder(path);
  const auto index_path = folder.find(kIndexName);
  if (index_path.empty())
    throw config_error(
        fmt::format("{}: no {} in this directory{}", shown, kIndexName, splits_in(path)));
  auto index = read_index(index_path);
  std::vector<PartitionFile> files;
  std::map<fs::path, std::pair<MdsShard, bool>> shards;  // and whether the compressed one is used
  for (auto& shard : index.shards) {
    auto file = folder.find(shard.raw_name);
    const bool is_packed = file.empty();
    if (is_packed) file = folder.find(shard.zip_name);
    if (file.empty())
      throw config_error(fmt::format("{}: it names {}, which is missing",
                                     printable(index_path.string(), kMaxPathShown),
                                     printable(shard.raw_name)));
    files.push_back({.path = file,
                     .keys = {},
                     .rows = shard.samples,
                     .bytes = shard.raw_bytes,
                     .is_packed = is_packed});
    if (!shards.emplace(file, std::pair(std::move(shard), is_packed)).second)
      throw config_error(
          fmt::format("{}: it names {} twice", printable(index_path.string(), kMaxPathShown),
                      printable(file.lexically_relative(index_path.parent_path()).string())));
  }
  std::vector<IndexedColumn> known;
  for (const auto& column : index.columns)
    known.push_back({column.name, kind_of(column), column.encoding});
  return {std::move(files),
          [columns = std::make_shared<const std::vector<MdsColumn>>(std::move(index.columns)),
           shards = std::move(shards)](const fs::path& file) -> std::unique_ptr<ColumnarFile> {
            const auto& [shard, is_packed] = shards.at(file);
            return std::make_unique<MdsFile>(file, columns, shard, is_packed);
          },
          std::move(known)};
}

}  // namespace lockstep::formats
