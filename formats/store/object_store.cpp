#include "formats/store/object_store.h"

#include <dlfcn.h>
#include <fmt/format.h>

#include "formats/store/http_store.h"
#include "formats/store/hub_store.h"

namespace lockstep::formats {
namespace {

const ObjectStoreLibrary& object_store_library() {
  static void* const library = ::dlopen("liblockstep_store.so", RTLD_NOW | RTLD_LOCAL);
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
