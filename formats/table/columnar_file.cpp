#include "formats/table/columnar_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

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

// An object: its copy may be evicted between two reads, and is then fetched again.
class StoredParquetFile final : public ColumnarFile {
 public:
  explicit StoredParquetFile(std::filesystem::path path) : path_(std::move(path)) {
    const LocalFile copy(path_);
    file_ = open_local(copy.path(), name());
  }

  std::vector<std::string> columns() const override { return file_->columns(); }
  std::vector<std::string> index_columns() const override { return file_->index_columns(); }
  std::vector<int64_t> row_groups() const override { return file_->row_groups(); }
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
