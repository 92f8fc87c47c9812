// The row groups of a columnar dataset, and which of their rows are used. No LibTorch.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "data/sets/open_files.h"
#include "formats/table/hive_partitions.h"
#include "formats/table/table_config.h"
#include "formats/table/table_filter.h"

namespace lockstep::data {

// What columnar datasets have in common.
struct ColumnarConfig {
  std::string dataset, path;
  formats::TableConfig table;
  std::vector<std::string> filter;
  formats::PartitionedFiles files;
  bool are_mapped = true;  // the files
  int64_t kept = 0;        // row groups, in addition to those being read
};

// The row groups with used rows, and their number of used rows.
//
// Thread: const functions are safe to call from several threads concurrently.
class RowGroups {
 public:
  // Throws Config if no rows remain; as PartitionedFiles::open() and formats::used_columns().
  explicit RowGroups(const ColumnarConfig& config);

  // The ends of the groups in the order of all used rows.
  const std::vector<int64_t>& ends() const { return ends_; }
  size_t group_of(int64_t row) const {
    return static_cast<size_t>(std::ranges::upper_bound(ends_, row) - ends_.begin());
  }
  int64_t begin_of(size_t group) const { return group == 0 ? 0 : ends_[group - 1]; }

  // The ends of the files, also of those without used rows.
  const std::vector<int64_t>& file_ends() const { return file_ends_; }
  bool has_row_access() const { return has_row_access_; }

  // About columns that are not used; may be empty.
  const std::string& warning() const { return warning_; }

  // Whether files are fetched when groups of them are read.
  bool are_fetched_later() const { return files_.are_fetched_later(); }
  // Begins to fetch the files of these groups, if they are fetched later.
  void fetch_ahead(const std::vector<size_t>& groups) const;
  // The same, of all groups: call it before all are read.
  void fetch_all_ahead() const;
  // Fetches all files, and waits for them.
  void fetch_all() const { files_.fetch_all(); }

  // Whether an encoding of the used columns can depend on more than one of the groups.
  bool need_all_rows() const;

  // The used rows of a group.
  formats::DataTable read(size_t group, const ParallelFor& work = serial_for) const;
  // `rows`: of the used rows of file `number`. Requires has_row_access().
  formats::DataTable read_rows(size_t number, std::span<const int64_t> rows) const;

 private:
  void choose_columns_of(const formats::ColumnarFile& first, const std::string& path);
  void verify_columns(size_t number, const formats::ColumnarFile& file) const;
  bool needs_look(const formats::ColumnarFile& file, size_t group) const;
  std::vector<size_t> files_to_look_at() const;
  void add(size_t number, const formats::ColumnarFile& file);
  int64_t look_at(const formats::ColumnarFile& file, size_t group, int64_t begin, int64_t rows);
  formats::DataTable read_used(const formats::ColumnarFile& file, size_t group,
                               const ParallelFor& work) const;

  formats::TableConfig config_;
  formats::RowFilter filter_;
  OpenFiles files_;
  std::string warning_;
  std::vector<std::string> used_, read_;           // columns; the latter with those of the filter
  std::vector<std::pair<size_t, size_t>> groups_;  // file, row group
  std::vector<int64_t> ends_, file_ends_;
  bool has_row_access_ = true;
  // With row access: the used rows of the groups where rows were removed.
  std::map<size_t, std::vector<uint32_t>> left_;
};

}  // namespace lockstep::data
