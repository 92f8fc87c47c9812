#include "formats/store/object_store.h"

#include <dlfcn.h>
#include <fmt/format.h>

namespace lockstep::formats {

std::unique_ptr<ObjectStore> open_object_store(const BucketOptions& options) {
  static void* const library = ::dlopen("liblockstep_store.so", RTLD_NOW | RTLD_LOCAL);
  if (!library)
    throw config_error(
        fmt::format("s3://{}: cannot load the Arrow libraries: {} (run 'make setup', which installs "
                    "pyarrow, and rebuild Lockstep)",
                    options.bucket, ::dlerror()));
  const auto open = reinterpret_cast<OpenStore>(::dlsym(library, kOpenStore));
  check(open != nullptr, "liblockstep_store.so does not define its function");
  return std::unique_ptr<ObjectStore>(open(options));
}

}  // namespace lockstep::formats
