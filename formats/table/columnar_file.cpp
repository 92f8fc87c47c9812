#include "formats/table/columnar_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <cstring>

#include "core/printable.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr const char* kArrowLibrary = "liblockstep_parquet.so";

// The function `name` of the library. `dataset`: for messages.
template <class Function>
Function open_function(const char* name, const char* dataset) {
  // The dynamic linker searches the program's run path, which contains the library directory of the
  // build or installation.
  static void* const library = ::dlopen(kArrowLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw config_error(
        fmt::format("dataset {}: cannot load the Arrow libraries: {} (install the pyarrow that "
                    "Lockstep was built with next to LibTorch, or run 'make setup' and rebuild; or "
                    "convert the table to CSV)",
                    dataset, ::dlerror()));
  const auto open = reinterpret_cast<Function>(::dlsym(library, name));
  check(open != nullptr, "liblockstep_parquet.so lacks a function");
  return open;
}

std::unique_ptr<ColumnarFile> open_local(const std::filesystem::path& file,
                                         const std::string& name) {
  using Open = ColumnarFile* (*)(const std::filesystem::path&, const std::string& name);
  static const auto open = open_function<Open>("lockstep_open_parquet", "parquet");
  return std::unique_ptr<ColumnarFile>(open(file, name));
}

// The end of a Parquet file: the metadata, their length, and a mark.
constexpr size_t kFooterLengthBytes = 4, kFooterMarkBytes = 4;
// What is requested at first: few footers are larger.
constexpr int64_t kFooterTailBytes = int64_t{64} << 10;

// Requires that the object is larger than kFooterTailBytes.
std::vector<uint8_t> read_footer(const std::filesystem::path& path, int64_t file_bytes,
                                 const std::string& name) {
  std::vector<uint8_t> tail(kFooterTailBytes);
  read_stored(path, file_bytes - kFooterTailBytes, tail);
  uint32_t length = 0;  // x86 and ARM are little-endian, as Parquet
  std::memcpy(&length, tail.data() + tail.size() - kFooterMarkBytes - kFooterLengthBytes,
              kFooterLengthBytes);
  const auto size = int64_t{length} + int64_t{kFooterLengthBytes + kFooterMarkBytes};
  if (size <= kFooterTailBytes) return tail;
  if (size > file_bytes)
    throw config_error(
        fmt::format("{}: not a usable Parquet file: it claims a footer of {} bytes, but has {}",
                    name, size, file_bytes));
  std::vector<uint8_t> footer(static_cast<size_t>(size - kFooterTailBytes));
  read_stored(path, file_bytes - size, footer);
  footer.insert(footer.end(), tail.begin(), tail.end());
  return footer;
}

// An object. Its copy is fetched when it is read, and again if it was evicted between two reads.
class StoredParquetFile final : public ColumnarFile {
 public:
  explicit StoredParquetFile(std::filesystem::path path) : path_(std::move(path)) {
    const auto bytes = stored_bytes(path_);
    if (bytes <= 2 * kFooterTailBytes) {
      const LocalFile copy(path_);
      file_ = open_local(copy.path(), name());
      return;
    }
    using Open =
        ColumnarFile* (*)(std::span<const uint8_t>, int64_t bytes, const std::string& name);
    static const auto open = open_function<Open>("lockstep_open_parquet_footer", "parquet");
    file_.reset(open(read_footer(path_, bytes, name()), bytes, name()));
  }

  std::vector<std::string> columns() const override { return file_->columns(); }
  std::vector<std::string> index_columns() const override { return file_->index_columns(); }
  std::vector<int64_t> row_groups() const override { return file_->row_groups(); }
  ColumnKind kind_of(const std::string& column) const override { return file_->kind_of(column); }
  bool has_counts(const std::string& column) const override { return file_->has_counts(column); }
  bool may_pass(size_t row_group, const RowFilter& filter) const override {
    return file_->may_pass(row_group, filter);
  }
  bool is_complete(size_t row_group, const std::vector<std::string>& columns) const override {
    return file_->is_complete(row_group, columns);
  }

  // The copy is verified against the version of the object that was opened first.
  DataTable read(size_t row_group, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    const LocalFile copy(path_);
    return open_local(copy.path(), name())->read(row_group, columns, work);
  }

 private:
  std::string name() const { return printable(path_.string(), 400); }

  std::filesystem::path path_;
  std::unique_ptr<ColumnarFile> file_;  // for its metadata
};

// Owns the mapping, and verifies after each read that the file is unchanged.
class MappedArrowFile final : public ColumnarFile {
 public:
  explicit MappedArrowFile(const std::filesystem::path& path) : mapped_(path) {
    using Open = ColumnarFile* (*)(const uint8_t*, size_t, const std::string& name);
    static const auto open = open_function<Open>("lockstep_open_arrow", "arrow");
    file_ = mapped_.read([&](std::span<const uint8_t> bytes) {
      return std::unique_ptr<ColumnarFile>(
          open(bytes.data(), bytes.size(), printable(path.string(), 400)));
    });
  }

  std::vector<std::string> columns() const override { return file_->columns(); }
  std::vector<std::string> index_columns() const override { return file_->index_columns(); }
  std::vector<int64_t> row_groups() const override { return file_->row_groups(); }
  bool has_row_access() const override { return file_->has_row_access(); }
  bool may_pass(size_t row_group, const RowFilter& filter) const override {
    return file_->may_pass(row_group, filter);
  }
  bool is_complete(size_t row_group, const std::vector<std::string>& columns) const override {
    return file_->is_complete(row_group, columns);
  }

  DataTable read(size_t row_group, const std::vector<std::string>& columns,
                 const ParallelFor& work) const override {
    auto table = mapped_.read([&](auto) { return file_->read(row_group, columns, work); });
    mapped_.note_read(mapped_.bytes().size() / file_->row_groups().size());
    return table;
  }
  DataTable read_rows(std::span<const RowPlace> rows,
                      const std::vector<std::string>& columns) const override {
    auto table = mapped_.read([&](auto) { return file_->read_rows(rows, columns); });
    mapped_.note_read(0, rows.size() * columns.size());
    return table;
  }
  std::vector<uint8_t> read_bytes(const RowPlace& row, const std::string& column) const override {
    auto bytes = mapped_.read([&](auto) { return file_->read_bytes(row, column); });
    mapped_.note_read(bytes.size());
    return bytes;
  }

 private:
  MappedFile mapped_;
  std::unique_ptr<ColumnarFile> file_;
};

}  // namespace

std::unique_ptr<ColumnarFile> open_arrow_file(const std::filesystem::path& path) {
  return std::make_unique<MappedArrowFile>(path);
}

std::unique_ptr<ColumnarFile> open_parquet_file(const std::filesystem::path& path) {
  if (has_scheme(path)) return std::make_unique<StoredParquetFile>(path);
  MappedFile::identity_of(path);  // its error names the working directory
  return open_local(path, printable(path.string(), 400));
}

}  // namespace lockstep::formats
