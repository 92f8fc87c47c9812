// Datasets "parquet", "arrow" and "mds": tables that may be larger than memory. Reads row groups,
// of which each loader thread holds at most one, and of them only the used columns; of Arrow files
// and MDS shards without compression, which are mapped, only the rows of a batch. Fields:
// "features", "categories" and "label", see data/table_batch.h.
#include <algorithm>
#include <numeric>
#include <optional>

#include "data/block_cache.h"
#include "data/sample_runs.h"
#include "data/sets/row_groups.h"
#include "data/shard_error.h"
#include "data/table_batch.h"
#include "formats/mds/mds_file.h"
#include "formats/table/columnar_file.h"
#include "formats/table/hive_partitions.h"
#include "formats/table/saved_dataset.h"
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

class ColumnarDataset : public EncodedTable {
 public:
  explicit ColumnarDataset(const ColumnarConfig& config)
      : config_(config.table),
        kept_(config.kept),
        groups_(config),
        blocks_([this](size_t group, SharedWork& work) {
          const auto pieces = parallel_for(work);
          const auto read = [&] { return encoding().encode(groups_.read(group, pieces), pieces); };
          return has_read_all_ ? read() : of_shard(read);
        }) {}

  int64_t size() const override { return groups_.ends().back(); }
  SampleInfo sample_info() const override {
    const auto read_labels = [this] { return labels(); };
    if (!groups_.has_row_access()) {
      SampleInfo info{.shards = groups_.ends(), .reads_whole_shards = true, .labels = read_labels};
      if (groups_.are_fetched_later())
        info.fetch_ahead = [this](const auto& chosen) { groups_.fetch_ahead(chosen); };
      return info;
    }
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
    has_read_all_ = !groups_.are_fetched_later() || groups_.need_all_rows();
    if (has_read_all_) groups_.fetch_all_ahead();
    encoding_.emplace(!has_read_all_               ? statistics_of_groups(1)
                      : other && !training.empty() ? statistics_of(training)
                                                   : statistics_of_groups(groups_.ends().size()));
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

  // Requires another pass over the files. Before fit(), a mixture calls it to have them there.
  std::vector<double> labels() const {
    std::vector<double> labels;
    if (!encoding_) groups_.fetch_all();
    if (!encoding_ || !encoding().has_label()) return labels;
    groups_.fetch_all_ahead();
    for (size_t group = 0; group < groups_.ends().size(); ++group)
      add_labels(encoding(), encoding().encode(groups_.read(group)), labels);
    return labels;
  }

  // Of the first ones.
  formats::TableEncoding::Statistics statistics_of_groups(size_t count) const {
    formats::TableEncoding::Statistics statistics(config_, has_read_all_);
    for (size_t group = 0; group < count; ++group) {
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
  bool has_read_all_ = true;  // for the encoding, or this is of another dataset
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
