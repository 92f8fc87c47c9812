// Parquet and Arrow files, read by row group and column. No LibTorch.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/system/shared_work.h"
#include "formats/table/table.h"
#include "formats/table/table_filter.h"
#include "lockstep/error.h"

namespace lockstep::formats {

inline constexpr const char* kNoRowAccess = "single rows of this file cannot be read";

// A row of a file: its row group, and its number there.
struct RowPlace {
  size_t group = 0;
  int64_t row = 0;
};

// Its row groups are the record batches of an Arrow file. Safe for untrusted files: verifies
// metadata, decoded columns, and page checksums if present.
//
// Thread: const functions are safe to call from several threads concurrently.
class ColumnarFile {
 public:
  virtual ~ColumnarFile() = default;

  // Names of all top-level columns.
  virtual std::vector<std::string> columns() const = 0;
  // Names of the columns that store a pandas index.
  virtual std::vector<std::string> index_columns() const = 0;
  // Number of rows in each row group.
  virtual std::vector<int64_t> row_groups() const = 0;

  // Reads columns of a row group, in the given order; a column of lists of numbers becomes one
  // column per element. `work` executes the loop over columns. Throws Config for unsupported column
  // types (supported: number, boolean, date, time, string, list of numbers), lists of different
  // lengths, and corrupt files; Environment if the file cannot be read or was changed since it was
  // opened.
  virtual DataTable read(size_t row_group, const std::vector<std::string>& columns,
                         const ParallelFor& work = serial_for) const = 0;

  // Whether read_rows() is possible: the file is mapped and its rows are not compressed.
  virtual bool has_row_access() const { return false; }
  // As read(), for these rows only, in the given order. Throws Config without has_row_access().
  virtual DataTable read_rows(std::span<const RowPlace>, const std::vector<std::string>&) const {
    throw config_error(kNoRowAccess);
  }

  // A copy of the bytes of a cell, as of an image: the column is binary, or a structure with a binary
  // field "bytes". Throws Config without has_row_access(), for other types and missing bytes.
  virtual std::vector<uint8_t> read_bytes(const RowPlace&, const std::string&) const {
    throw config_error(kNoRowAccess);
  }

  // According to the file's schema. Throws Config for a column that read() does not support.
  virtual ColumnKind kind_of(const std::string& /*column*/) const { return ColumnKind::Unknown; }
  // True if, according to the file's statistics, the values of a column are integers from 0.
  virtual bool has_counts(const std::string& /*column*/) const { return false; }
  // False if, according to the file's statistics, no row of the group passes the filter.
  virtual bool may_pass(size_t row_group, const RowFilter& filter) const = 0;
  // True if, according to the file's statistics, the columns have no missing values in the group.
  virtual bool is_complete(size_t row_group, const std::vector<std::string>& columns) const = 0;
};

// Loads the Arrow libraries (70 MB) when the first file is opened. Throws Config if this build has
// no Arrow, or the file does not exist or is not a Parquet file. Of an object in a store, only the footer is
// fetched until it is read.
std::unique_ptr<ColumnarFile> open_parquet_file(const std::filesystem::path& path);

// Maps a file in Arrow's IPC file format (also Feather version 2) or stream format. Throws as
// open_parquet_file(). The object holds a file descriptor.
std::unique_ptr<ColumnarFile> open_arrow_file(const std::filesystem::path& path);

}  // namespace lockstep::formats
