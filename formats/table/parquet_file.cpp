#include "formats/table/parquet_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/printable.h"
#include "formats/mapped_file.h"
#include "formats/path_list.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr const char* kArrowLibrary = "liblockstep_parquet.so";

using OpenParquet = ParquetFile* (*)(const std::filesystem::path&, const std::string& name);

OpenParquet open_function() {
  // The dynamic linker searches the program's run path, which contains the library directory of the
  // build or installation.
  static void* const library = ::dlopen(kArrowLibrary, RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw config_error(
        fmt::format("dataset parquet: cannot load the Arrow libraries: {} (install the pyarrow "
                    "that Lockstep was "
                    "built with next to LibTorch, or run 'make setup' and rebuild; or convert the "
                    "table to CSV)",
                    ::dlerror()));
  const auto open = reinterpret_cast<OpenParquet>(::dlsym(library, "lockstep_open_parquet"));
  check(open != nullptr, "liblockstep_parquet.so does not define lockstep_open_parquet");
  return open;
}

std::unique_ptr<ParquetFile> open_local(const std::filesystem::path& file,
                                        const std::string& name) {
  return std::unique_ptr<ParquetFile>(open_function()(file, name));
}

// An object: its copy may be evicted between two reads, and is then fetched again.
class StoredParquetFile final : public ParquetFile {
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
  std::unique_ptr<ParquetFile> file_;  // for its metadata
};

}  // namespace

std::unique_ptr<ParquetFile> open_parquet_file(const std::filesystem::path& path) {
  if (has_scheme(path)) return std::make_unique<StoredParquetFile>(path);
  MappedFile::identity_of(path);  // its error names the working directory
  return open_local(path, printable(path.string(), 400));
}

}  // namespace lockstep::formats
