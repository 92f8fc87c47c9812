#include "formats/table/parquet_file.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "core/printable.h"
#include "formats/mapped_file.h"
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

}  // namespace

std::unique_ptr<ParquetFile> open_parquet_file(const std::filesystem::path& path) {
  MappedFile::identity_of(path);  // its error names the working directory
  return std::unique_ptr<ParquetFile>(open_function()(path, printable(path.string(), 400)));
}

}  // namespace lockstep::formats
