#include "formats/store/object_store.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "formats/store/hub_store.h"
#include "formats/store/read_only_store.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

std::function<fs::path()>& arrow_folder() {
  static std::function<fs::path()> find;
  return find;
}

void* load_store_library() {
  constexpr const char* kLibrary = "liblockstep_store.so";
  auto* library = ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
  if (library || !arrow_folder()) return library;
  // What is loaded already is not searched.
  std::error_code error;
  for (fs::directory_iterator it(arrow_folder()(), error), end; !error && it != end;
       it.increment(error)) {
    const auto name = it->path().filename().string();
    if (name.starts_with("libarrow.so.") || name.starts_with("libarrow_s3.so."))
      ::dlopen(it->path().c_str(), RTLD_LAZY | RTLD_LOCAL);
  }
  return ::dlopen(kLibrary, RTLD_NOW | RTLD_LOCAL);
}

const ObjectStoreLibrary& object_store_library() {
  static void* const library = load_store_library();
  if (!library)
    throw config_error(
        fmt::format("a bucket: cannot load the Arrow libraries: {} (run 'make setup', which "
                    "installs pyarrow, and rebuild Lockstep)",
                    ::dlerror()));
  const auto* exported =
      static_cast<const ObjectStoreLibrary*>(::dlsym(library, kObjectStoreLibrary));
  check(exported != nullptr, "liblockstep_store.so does not define what it exports");
  return *exported;
}

}  // namespace

void set_arrow_folder(std::function<fs::path()> find) { arrow_folder() = std::move(find); }

void start_buckets() { object_store_library().start(); }

void finish_buckets() { object_store_library().finish(); }

std::unique_ptr<ObjectStore> open_object_store(const BucketOptions& options) {
  switch (options.kind) {
    case StoreKind::Http: return open_http_store(options);
    case StoreKind::Hub: return open_hub_store(options);
    default: break;
  }
  return std::unique_ptr<ObjectStore>(object_store_library().open(options));
}

}  // namespace lockstep::formats
