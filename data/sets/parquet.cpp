// Dataset "parquet": tables that may be larger than memory. Reads row groups, of which each loader
// thread holds at most one, and of them only the used columns. Fields: "features", "categories" and
// "label", see data/table_batch.h.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/printable.h"
#include "data/block_cache.h"
#include "data/sample_runs.h"
#include "data/table_batch.h"
#include "formats/table/hive_partitions.h"
#include "formats/table/parquet_file.h"
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
    "without "
    "such rows are not read");
  v("keep_row_groups", c.keep_row_groups,
    "decoded row groups that each rank keeps in memory for the next epochs; 0: only those being "
    "read",
    at_least(0), at_most(1 << 20));
}

// The row groups with used rows, and their number of used rows.
class RowGroups {
 public:
  explicit RowGroups(const ParquetConfig& config) : config_(config.table) {
    for (const auto& text : config.filter) filter_.push_back(formats::parse_column_test(text));
    const auto name = printable(config.path, 400);
    files_ = formats::open_partitions(formats::parquet_files(config.path));
    const auto index = files_.front()->index_columns();
    used_ = read_ = used_columns(config_, files_.front()->columns(), name, index);
    warning_ = index_warning(config_, index, name);
    for (const auto& test : filter_)
      if (std::ranges::find(read_, test.column) == read_.end()) read_.push_back(test.column);
    for (size_t file = 0; file < files_.size(); ++file) add(file);
    if (ends_.empty())
      throw config_error(
          fmt::format("dataset parquet: {}: no rows remain", printable(config.path, 400)));
  }

  // The ends of the groups in the order of all used rows.
  const std::vector<int64_t>& ends() const { return ends_; }
  size_t group_of(int64_t row) const {
    return static_cast<size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
  }
  int64_t begin_of(size_t group) const { return group == 0 ? 0 : ends_[group - 1]; }

  const std::string& warning() const { return warning_; }

  // The used rows of a group.
  formats::DataTable read(size_t group, const ParallelFor& work = serial_for) const {
    const auto [file, number] = groups_[group];
    auto table = read_used(*files_[file], number, work);
    check(static_cast<int64_t>(table.rows) == ends_[group] - begin_of(group),
          "the rows of a row group have changed");
    return table;
  }

 private:
  void add(size_t number) {
    const auto& file = *files_[number];
    const auto all = file.columns();
    for (const auto& column : read_)
      if (std::ranges::find(all, column) == all.end())
        formats::used_columns({.columns = {column}}, all, printable(file_name(number), 400));
    const auto rows = file.row_groups();
    for (size_t group = 0; group < rows.size(); ++group) {
      if (rows[group] == 0 || !file.may_pass(group, filter_)) continue;
      const bool needs_look =
          !filter_.empty() ||
          (config_.missing == formats::MissingValues::Drop && !file.is_complete(group, used_));
      const auto count =
          needs_look ? static_cast<int64_t>(read_used(file, group, serial_for).rows) : rows[group];
      if (count == 0) continue;
      groups_.emplace_back(number, group);
      ends_.push_back((ends_.empty() ? 0 : ends_.back()) + count);
    }
  }

  std::string file_name(size_t number) const { return fmt::format("file {}", number + 1); }

  formats::DataTable read_used(const formats::ParquetFile& file, size_t group,
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
  std::vector<std::unique_ptr<formats::ParquetFile>> files_;
  std::string warning_;                            // of columns that are not used
  std::vector<std::string> used_, read_;           // the latter with those of the filter
  std::vector<std::pair<size_t, size_t>> groups_;  // file, row group
  std::vector<int64_t> ends_;
};

class ParquetDataset final : public Dataset {
 public:
  using Config = ParquetConfig;

  explicit ParquetDataset(const Config& config)
      : config_(config.table),
        kept_(config.keep_row_groups),
        groups_(config),
        blocks_([this](size_t group, SharedWork& work) {
          const auto pieces = parallel_for(work);
          return encoding().encode(groups_.read(group, pieces), pieces);
        }) {}

  int64_t size() const override { return groups_.ends().back(); }
  SampleInfo sample_info() const override {
    return {.shards = groups_.ends(), .reads_whole_shards = true, .labels = [this] {
              return labels();
            }};
  }

  Json metadata() const override { return encoding().metadata(); }
  std::vector<std::string> warnings() const override {
    if (groups_.warning().empty()) return {};
    return {groups_.warning()};
  }

  void fit(const Dataset& train_set, std::span<const int64_t> training) override {
    const auto* other = dynamic_cast<const ParquetDataset*>(&train_set);
    if (other && other != this) {
      encoding_ = other->encoding();
      return;
    }
    encoding_.emplace(other && !training.empty() ? statistics_of(training) : statistics_of_all());
  }

  std::vector<FieldLayout> layout() const override { return table_layout(encoding()); }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (const auto index : request.indices)
      check(index >= 0 && index < size(), "sample index outside the dataset");
    for_each_shard(groups_.ends(), request.indices, [&](size_t group, auto rows, auto places) {
      blocks_.use(group, std::max(request.nearby_groups, kept_),
                  [&](const formats::EncodedRows& block) {
                    gather_rows(encoding(), block, rows, places, fields);
                  });
    });
  }

 private:
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

  const formats::TableEncoding& encoding() const {
    check(encoding_.has_value(), "fit() must be called before the first batch");
    return *encoding_;
  }

  formats::TableConfig config_;
  int64_t kept_;  // groups, in addition to those being read
  RowGroups groups_;
  std::optional<formats::TableEncoding> encoding_;
  mutable BlockCache<formats::EncodedRows> blocks_;
};

REGISTER_DATASET("parquet", ParquetDataset, "Parquet files, which may be larger than memory");

}  // namespace
}  // namespace lockstep::data
