// Google Cloud Storage, through Arrow's file system.
#include <arrow/filesystem/gcsfs.h>
#include <fmt/format.h>

#include <array>

#include "formats/store/arrow/arrow_store.h"

namespace lockstep::formats {
namespace {

// The caller repeats requests: the client must not. Its limit is compared after a failed attempt.
constexpr double kGcsReadRetries_s = 0.05;
constexpr double kGcsWriteRetries_s = 10;  // of each part

constexpr const char* kGcsRemedy =
    "no valid credentials: set GOOGLE_APPLICATION_CREDENTIALS to the file of a key; a public "
    "bucket needs ?anonymous=true";

// The first match counts.
constexpr std::array<KnownFailure, 13> kGcsFailures = {{
    {"bucket does not exist", StoreFailure::NoBucket, ErrorKind::Config, "no such bucket"},
    {"NOT_FOUND", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"CURL error [60]", StoreFailure::Other, ErrorKind::Config,
     "the server's certificate is not trusted: set SSL_CERT_FILE to the file of its authority"},
    {"CURL error [3]", StoreFailure::Other, ErrorKind::Config,
     "the endpoint is not a valid address"},
    // Of a machine of another provider, which has no metadata server.
    {"underlying error message was: PerformWork() - CURL error [6]", StoreFailure::Credentials,
     ErrorKind::Config, kGcsRemedy},
    {"Cannot open credentials file", StoreFailure::Credentials, ErrorKind::Config, kGcsRemedy},
    {"INVALID_ARGUMENT: Permanent error, with a last message of Could not create a OAuth2",
     StoreFailure::Credentials, ErrorKind::Config, kGcsRemedy},
    {"UNAUTHENTICATED", StoreFailure::Credentials, ErrorKind::Config, kGcsRemedy},
    {"PERMISSION_DENIED", StoreFailure::Denied, ErrorKind::Config,
     "access denied: the credentials do not permit this"},
    {"INVALID_ARGUMENT", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"FAILED_PRECONDITION", StoreFailure::Other, ErrorKind::Config,
     "the server refused the request"},
    {"OUT_OF_RANGE", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"UNIMPLEMENTED", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
}};

// What went wrong, from "google::cloud::Status(CODE: Retry policy exhausted, with a last message of
// text error_info={...})".
std::string_view essence_of_gcs(std::string_view message) {
  const auto text = text_between(message, "with a last message of ", " error_info=", message);
  return text_between(text, "The underlying error message was: ", " error_info=", text);
}

class GcsStore final : public ArrowStore {
 public:
  explicit GcsStore(const BucketOptions& options)
      : ArrowStore("gs://" + options.bucket, options.bucket) {
    auto gcs = options.is_anonymous ? arrow::fs::GcsOptions::Anonymous()
                                    : arrow::fs::GcsOptions::Defaults();
    gcs.endpoint_override = options.endpoint;
    gcs.scheme = options.scheme;
    gcs.retry_limit_seconds = kGcsReadRetries_s;
    auto files = files_of(gcs);
    gcs.retry_limit_seconds = kGcsWriteRetries_s;
    set_files(std::move(files), files_of(gcs));
  }

  // The client can take the answer to a question about an interrupted upload for its success.
  void write(const std::string& key, const NextBytes& next) override {
    int64_t written = 0;
    ArrowStore::write(key, [&](std::span<uint8_t> out) {
      const auto count = next(out);
      written += static_cast<int64_t>(count);
      return count;
    });
    const auto size = info(key).size;
    if (size != written)
      throw StoreError(
          StoreFailure::Temporary, ErrorKind::Environment,
          fmt::format("{}: {} bytes were written instead of {}", name_of(key), size, written));
  }

  // The file system would remove an object for the folder too, which does not exist.
  void remove_all(const std::string& prefix) override {
    for (const auto& object : list(prefix, SIZE_MAX)) remove(object.key);
  }

 private:
  void set_version(ObjectInfo& info, const arrow::KeyValueMetadata& metadata) const override {
    info.tag = metadata.Get("generation").ValueOr("");
    info.modified = seconds_of_iso_time(metadata.Get("updated").ValueOr(""));
  }

  StoreError error_of(const std::string& place, const std::string& message) const override {
    return known_error(kGcsFailures, place, message, essence_of_gcs(message));
  }

  // Arrow's stream cannot be aborted: its destructor completes the object. An upload that is not
  // completed expires in the bucket.
  void abort(std::shared_ptr<arrow::io::OutputStream> file) override {
    new std::shared_ptr(std::move(file));  // never destroyed
  }

  std::shared_ptr<arrow::fs::FileSystem> files_of(const arrow::fs::GcsOptions& options) const {
    auto files = arrow::fs::GcsFileSystem::Make(options);
    if (!files.ok()) throw error_of("gs", files.status().ToString());
    return *files;
  }
};

}  // namespace

void start_gcs() { (void)arrow::fs::GcsFileSystem::Make(arrow::fs::GcsOptions::Anonymous()); }

ObjectStore* open_gcs(const BucketOptions& options) { return new GcsStore(options); }

}  // namespace lockstep::formats
