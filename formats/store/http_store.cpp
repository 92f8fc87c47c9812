// Files of an HTTP server.
#include "core/http/http_address.h"
#include "core/printable.h"
#include "formats/store/http_files.h"
#include "formats/store/read_only_store.h"

namespace lockstep::formats {
namespace {

class HttpStore final : public ReadOnlyStore {
 public:
  explicit HttpStore(const BucketOptions& options)
      : origin_(options.endpoint),
        files_({.timeout_s = options.timeout_s,
                .token = {},
                .token_origin = {},
                .proxies = options.proxies,
                .explain = {}}) {}

  ObjectInfo info(const std::string& key) override {
    auto object = files_.info(place_of(key)).object;
    object.key = key;
    return object;
  }

  std::vector<ObjectInfo> list(const std::string& prefix, size_t) override {
    throw StoreError(StoreFailure::Other, ErrorKind::Config,
                     place_of(prefix).shown +
                         ": the files of a folder cannot be listed over HTTP; valid: one file, "
                         "https://host/path");
  }

  void read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) override {
    files_.read(place_of(object.key), object, offset, out, true);
  }
  void read_whole(const ObjectInfo& object, const TakeBytes& take) override {
    files_.read_whole(place_of(object.key), object, take, true);
  }

 private:
  std::string path_of(const std::string& key) const override { return origin_ + "/" + key; }
  HttpPlace place_of(const std::string& key) const {
    return {origin_ + "/" + url_encoded(key), printable(path_of(key), 400)};
  }

  const std::string origin_;  // "https://host:port"
  HttpFiles files_;
};

}  // namespace

std::unique_ptr<ObjectStore> open_http_store(const BucketOptions& options) {
  return std::make_unique<HttpStore>(options);
}

}  // namespace lockstep::formats
