// Parquet files, read by whole row groups and chosen columns. No LibTorch.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/system/shared_work.h"
#include "formats/table/table.h"
#include "formats/table/table_filter.h"

namespace lockstep::formats {

// The bytes may be hostile: metadata are checked before they are used, decoded columns before they
// are read, pages against their checksums where they have them.
//
// Thread: const and safe to use from several threads at once.
class ParquetFile {
 public:
  virtual ~ParquetFile() = default;

  // Of the columns at the top level, whatever their type.
  virtual std::vector<std::string> columns() const = 0;
  // Those of them that pandas wrote as the index of the rows.
  virtual std::vector<std::string> index_columns() const = 0;
  // Rows of each row group.
  virtual std::vector<int64_t> row_groups() const = 0;

  // The columns of a row group, in that order; a column of lists of numbers as one column per
  // element. Throws Config for a column of another type than number, truth value, date, time, text
  // or list of numbers, for lists of different lengths, and for a damaged file; Environment when
  // the file cannot be read or has changed since it was opened. `work`: does the columns, which are
  // pieces.
  virtual DataTable read(size_t row_group, const std::vector<std::string>& columns,
                         const DoPieces& work = do_in_turn) const = 0;

  // False when the file's statistics say that no row of the group can pass the filter.
  virtual bool may_pass(size_t row_group, const RowFilter& filter) const = 0;
  // True when the statistics say that none of the columns misses a value in the group.
  virtual bool is_complete(size_t row_group, const std::vector<std::string>& columns) const = 0;
};

// Arrow's libraries, 70 MB of them, are loaded when the first file is opened. Throws Config: this
// build has none, no such file, or not Parquet.
std::unique_ptr<ParquetFile> open_parquet_file(const std::filesystem::path& path);

}  // namespace lockstep::formats
