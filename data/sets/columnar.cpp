// Datasets "parquet", "arrow" and "mds": tables that may be larger than memory. Reads row groups,
// of which each loader thread holds at most one, and of them only the used columns; of Arrow files
// and MDS shards without compression, which are mapped, only the rows of a batch. Fields:
// "features", "categories" and "label", see data/table_batch.h.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "core/printable.h"
#include "data/block_cache.h"
#include "data/sample_runs.h"
#include "data/sets/open_files.h"
#include "data/table_batch.h"
#include "formats/mds/mds_file.h"
#include "formats/table/columnar_file.h"
#include "formats/table/hive_partitions.h"
#include "formats/table/saved_dataset.h"
#include "formats/table/table_filter.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct ParquetConfig {
  std::string path;
  formats::TableConfig table;
  std::vector<std::string> filter;
  int64_t keep_row_groups = 0;
};

template <class V>
void fields(V& v, ParquetConfig& c) {
  v("path", c.path, "the file, or a folder of *.parquet files, also in folders named key=value",
    required());
  fields(v, c.table);
  v("filter", c.filter,
    "use only rows that pass all of these, e.g. ['month >= 6', 'carrier == AA']; row groups "
    "without such rows are not read");
  v("keep_row_groups", c.keep_row_groups,
    "decoded row groups that each rank keeps in memory for the next epochs; 0: only those being "
    "read",
    at_least(0), at_most(1 << 20));
}

struct MappedConfig {
  std::string path;
  formats::TableConfig table;
  std::vector<std::string> filter;
};
struct ArrowConfig : MappedConfig {};
struct MdsConfig : MappedConfig {};

template <class V>
void table_fields(V& v, MappedConfig& c) {
  fields(v, c.table);
  v("filter", c.filter,
    "use only rows that pass all of these, e.g. ['month >= 6', 'carrier == AA']");
}

template <class V>
void fields(V& v, ArrowConfig& c) {
  v("path", c.path,
    "a file of Arrow's IPC file or stream format, a folder of *.arrow, *.feather and *.ipc files, "
    "also in folders named key=value, or a folder of Dataset.save_to_disk()",
    required());
  table_fields(v, c);
}

template <class V>
void fields(V& v, MdsConfig& c) {
  v("path", c.path, "the directory of the shards and their index.json", required());
  table_fields(v, c);
}

// What the datasets have in common.
struct ColumnarConfig {
  std::string dataset, path;
  formats::TableConfig table;
  std::vector<std::string> filter;
  formats::PartitionedFiles files;
  bool are_mapped = true;  // the files
  int64_t kept = 0;        // row groups, in addition to those being read
};

// The row groups with used rows, and their number of used rows.
class RowGroups {
 public:
  explicit RowGroups(const ColumnarConfig& config)
      : config_(config.table), files_(config.files, config.are_mapped) {
    for (const auto& text : config.filter) filter_.push_back(formats::parse_column_test(text));
    if (files_.rows(0)) files_.fetch_all_ahead();  // others are fetched since they were listed
    for (size_t file = 0; file < files_.count(); ++file)
      add(file, *files_.open(file), printable(config.path, 400));
    if (!has_row_access_) left_.clear();
    if (ends_.empty())
      throw config_error(fmt::format("dataset {}: {}: no rows remain", config.dataset,
                                     printable(config.path, 400)));
  }

  // The ends of the groups in the order of all used rows.
  const std::vector<int64_t>& ends() const { return ends_; }
  size_t group_of(int64_t row) const {
    return static_cast<size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
  }
  int64_t begin_of(size_t group) const { return group == 0 ? 0 : ends_[group - 1]; }

  // The ends of the files, also of those without used rows.
  const std::vector<int64_t>& file_ends() const { return file_ends_; }
  bool has_row_access() const { return has_row_access_; }

  const std::string& warning() const { return warning_; }

  // The used rows of a group.
  formats::DataTable read(size_t group, const ParallelFor& work = serial_for) const {
    const auto [number, group_in_file] = groups_[group];
    formats::DataTable table;
    files_.use(number, [&, in_file = group_in_file](const formats::ColumnarFile& file) {
      table = read_used(file, in_file, work);
    });
    check(static_cast<int64_t>(table.rows) == ends_[group] - begin_of(group),
          "the rows of a row group have changed");
    return table;
  }

  // `rows`: of the used rows of file `number`. Requires has_row_access().
  formats::DataTable read_rows(size_t number, std::span<const int64_t> rows) const {
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

 private:
  void add(size_t number, const formats::ColumnarFile& file, const std::string& path) {
    if (number == 0) choose_columns_of(file, path);
    const auto all = file.columns();
    for (const auto& column : read_)
      if (std::ranges::find(all, column) == all.end())
        formats::used_columns({.columns = {column}}, all,
                              printable(files_.path(number).string(), 400));
    has_row_access_ &= file.has_row_access();
    const auto rows = file.row_groups();
    int64_t begin = 0, end = 0;  // of the group in the file
    for (size_t group = 0; group < rows.size(); ++group) {
      begin = std::exchange(end, end + rows[group]);
      if (rows[group] == 0 || !file.may_pass(group, filter_)) continue;
      const bool needs_look =
          !filter_.empty() ||
          (config_.missing == formats::MissingValues::Drop && !file.is_complete(group, used_));
      const auto count = needs_look ? look_at(file, group, begin, rows[group]) : rows[group];
      if (count == 0) continue;
      groups_.emplace_back(number, group);
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
    }
    file_ends_.push_back(ends_.empty() ? 0 : ends_.back());
  }

  void choose_columns_of(const formats::ColumnarFile& first, const std::string& path) {
    const auto index = first.index_columns();
    used_ = read_ = used_columns(config_, first.columns(), path, index);
    warning_ = index_warning(config_, index, path);
    for (const auto& test : filter_)
      if (std::ranges::find(read_, test.column) == read_.end()) read_.push_back(test.column);
  }

  // Counts the used rows of the next group, and remembers which they are if they are read singly.
  int64_t look_at(const formats::ColumnarFile& file, size_t group, int64_t begin, int64_t rows) {
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

  formats::DataTable read_used(const formats::ColumnarFile& file, size_t group,
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

  formats::TableConfig config_;
  formats::RowFilter filter_;
  OpenFiles files_;
  std::string warning_;                            // of columns that are not used
  std::vector<std::string> used_, read_;           // the latter with those of the filter
  std::vector<std::pair<size_t, size_t>> groups_;  // file, row group
  std::vector<int64_t> ends_, file_ends_;
  bool has_row_access_ = true;
  // With row access: the used rows of the groups where rows were removed.
  std::map<size_t, std::vector<uint32_t>> left_;
};

class ColumnarDataset : public EncodedTable {
 public:
  explicit ColumnarDataset(const ColumnarConfig& config)
      : config_(config.table),
        kept_(config.kept),
        groups_(config),
        blocks_([this](size_t group, SharedWork& work) {
          const auto pieces = parallel_for(work);
          return encoding().encode(groups_.read(group, pieces), pieces);
        }) {}

  int64_t size() const override { return groups_.ends().back(); }
  SampleInfo sample_info() const override {
    const auto read_labels = [this] { return labels(); };
    if (!groups_.has_row_access())
      return {.shards = groups_.ends(), .reads_whole_shards = true, .labels = read_labels};
    const auto& ends = groups_.file_ends();
    return {.shards = ends.size() > 1 ? ends : std::vector<int64_t>(), .labels = read_labels};
  }

  Json metadata() const override { return encoding().metadata(); }
  std::vector<std::string> warnings() const override {
    if (groups_.warning().empty()) return {};
    return {groups_.warning()};
  }

  void fit(const Dataset& train_set, std::span<const int64_t> training) override {
    const auto* other = dynamic_cast<const EncodedTable*>(&train_set);
    if (other && other != this) {
      encoding_ = other->encoding();
      return;
    }
    encoding_.emplace(other && !training.empty() ? statistics_of(training) : statistics_of_all());
  }

  const formats::TableEncoding& encoding() const override {
    check(encoding_.has_value(), "fit() must be called before the first batch");
    return *encoding_;
  }

  std::vector<FieldLayout> layout() const override { return table_layout(encoding()); }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size(), "sample index outside the dataset");
    if (groups_.has_row_access()) return fill_from_rows(request, fields);
    for_each_shard(groups_.ends(), request.indices, [&](size_t group, auto rows, auto places) {
      blocks_.use(group, std::max(request.nearby_groups, kept_),
                  [&](const formats::EncodedRows& block) {
                    gather_rows(encoding(), block, rows, places, fields);
                  });
    });
  }

 private:
  void fill_from_rows(const SampleRequest& request, std::span<const at::Tensor> fields) const {
    for_each_shard(groups_.file_ends(), request.indices, [&](size_t file, auto rows, auto places) {
      const auto block = encoding().encode(groups_.read_rows(file, rows));
      std::vector<int64_t> order(rows.size());
      std::iota(order.begin(), order.end(), 0);
      gather_rows(encoding(), block, order, places, fields);
    });
  }

  // Requires another pass over the files.
  std::vector<double> labels() const {
    std::vector<double> labels;
    if (!encoding().has_label()) return labels;
    for (size_t group = 0; group < groups_.ends().size(); ++group)
      add_labels(encoding(), encoding().encode(groups_.read(group)), labels);
    return labels;
  }

  formats::TableEncoding::Statistics statistics_of_all() const {
    formats::TableEncoding::Statistics statistics(config_);
    for (size_t group = 0; group < groups_.ends().size(); ++group) {
      const auto table = groups_.read(group);
      std::vector<int64_t> rows(table.rows);
      std::iota(rows.begin(), rows.end(), 0);
      statistics.add(table, rows);
    }
    return statistics;
  }

  formats::TableEncoding::Statistics statistics_of(std::span<const int64_t> training) const {
    std::vector<int64_t> sorted(training.begin(), training.end());
    std::ranges::sort(sorted);
    formats::TableEncoding::Statistics statistics(config_);
    for (size_t begin = 0; begin < sorted.size();) {
      const auto group = groups_.group_of(sorted[begin]);
      std::vector<int64_t> rows;
      while (begin < sorted.size() && groups_.group_of(sorted[begin]) == group)
        rows.push_back(sorted[begin++] - groups_.begin_of(group));
      statistics.add(groups_.read(group), rows);
    }
    return statistics;
  }

  formats::TableConfig config_;
  int64_t kept_;  // groups, in addition to those being read
  RowGroups groups_;
  std::optional<formats::TableEncoding> encoding_;
  mutable BlockCache<formats::EncodedRows> blocks_;
};

class ParquetDataset final : public ColumnarDataset {
 public:
  using Config = ParquetConfig;
  explicit ParquetDataset(const Config& config)
      : ColumnarDataset({.dataset = "parquet",
                         .path = config.path,
                         .table = config.table,
                         .filter = config.filter,
                         .files = {formats::partition_files(config.path, {".parquet"}),
                                   formats::open_parquet_file},
                         .are_mapped = false,
                         .kept = config.keep_row_groups}) {}
};

class ArrowDataset final : public ColumnarDataset {
 public:
  using Config = ArrowConfig;
  explicit ArrowDataset(const Config& config)
      : ColumnarDataset({.dataset = "arrow",
                         .path = config.path,
                         .table = config.table,
                         .filter = config.filter,
                         .files = {formats::arrow_files(config.path), formats::open_arrow_file}}) {}
};

class MdsDataset final : public ColumnarDataset {
 public:
  using Config = MdsConfig;
  explicit MdsDataset(const Config& config)
      : ColumnarDataset({.dataset = "mds",
                         .path = config.path,
                         .table = config.table,
                         .filter = config.filter,
                         .files = formats::mds_shards(config.path)}) {}
};

REGISTER_DATASET("parquet", ParquetDataset, "Parquet files, which may be larger than memory");
REGISTER_DATASET("arrow", ArrowDataset,
                 "Arrow and Feather files, also of Hugging Face's datasets, mapped");
REGISTER_DATASET("mds", MdsDataset, "shards of MosaicML Streaming");

}  // namespace
}  // namespace lockstep::data
