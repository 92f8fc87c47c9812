// Buckets through Arrow's S3 file system. Only this folder, which is a separate shared library,
// depends on it.
#include <arrow/filesystem/s3fs.h>
#include <arrow/io/interfaces.h>
#include <arrow/util/future.h>
#include <arrow/util/key_value_metadata.h>
#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <functional>
#include <string_view>

#include "core/printable.h"
#include "formats/store/object_store.h"

namespace lockstep::formats {
namespace {

// The caller repeats requests.
class NoRetries final : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail&, int64_t) override { return false; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t) override { return 0; }
};

struct KnownFailure {
  const char* text;  // part of Arrow's message
  StoreFailure failure;
  ErrorKind kind;
  const char* remedy;
};

constexpr const char* kCredentialsRemedy =
    "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; a public bucket needs "
    "?anonymous=true";

// The first match counts.
constexpr std::array<KnownFailure, 22> kKnownFailures = {{
    {"NO_SUCH_BUCKET", StoreFailure::NoBucket, ErrorKind::Config, "no such bucket"},
    {"NO_SUCH_KEY", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"Path does not exist", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"RESOURCE_NOT_FOUND", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"scoped to a valid Region", StoreFailure::Other, ErrorKind::Config,
     "the bucket is in another region: set AWS_REGION, or ?region="},
    {"PermanentRedirect", StoreFailure::Other, ErrorKind::Config,
     "the bucket is in another region: set AWS_REGION, or ?region="},
    {"AuthorizationHeaderMalformed", StoreFailure::Other, ErrorKind::Config,
     "the bucket is in another region: set AWS_REGION, or ?region="},
    {"REQUEST_TIME_TOO_SKEWED", StoreFailure::Clock, ErrorKind::Environment,
     "the clock of this machine differs too much from the server's: synchronize it"},
    {"RequestTimeTooSkewed", StoreFailure::Clock, ErrorKind::Environment,
     "the clock of this machine differs too much from the server's: synchronize it"},
    {"EXPIRED_TOKEN", StoreFailure::Expired, ErrorKind::Environment,
     "the credentials have expired: renew AWS_SESSION_TOKEN"},
    {"ExpiredToken", StoreFailure::Expired, ErrorKind::Environment,
     "the credentials have expired: renew AWS_SESSION_TOKEN"},
    {"INVALID_ACCESS_KEY_ID", StoreFailure::Credentials, ErrorKind::Config, kCredentialsRemedy},
    {"INVALID_CLIENT_TOKEN_ID", StoreFailure::Credentials, ErrorKind::Config, kCredentialsRemedy},
    {"UserNotFound", StoreFailure::Credentials, ErrorKind::Config, kCredentialsRemedy},
    {"SIGNATURE_DOES_NOT_MATCH", StoreFailure::Credentials, ErrorKind::Config, kCredentialsRemedy},
    {"ACCESS_DENIED", StoreFailure::Denied, ErrorKind::Config,
     "access denied: the credentials do not permit this"},
    {"curlCode: 60", StoreFailure::Other, ErrorKind::Config,
     "the server's certificate is not trusted: set AWS_CA_BUNDLE to the file of its authority"},
    {"curlCode: 3,", StoreFailure::Other, ErrorKind::Config, "the endpoint is not a valid address"},
    {"(HTTP status 400)", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"(HTTP status 301)", StoreFailure::Other, ErrorKind::Config,
     "the bucket is in another region: set AWS_REGION, or ?region="},
    {"(HTTP status 403)", StoreFailure::Denied, ErrorKind::Config,
     "access denied: the credentials do not permit this"},
    {"(HTTP status 405)", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
}};

constexpr size_t kPartBytes = size_t{10} << 20;
constexpr int kPartAttempts = 5;

// What went wrong, from "When ...: AWS Error CODE during Operation operation: text".
std::string essence(const std::string& message) {
  const auto begin = message.find("AWS Error ");
  return printable(begin == message.npos ? message : message.substr(begin + 10), 200);
}

StoreError store_error(const std::string& place, const arrow::Status& status) {
  const auto text = status.ToString();
  for (const auto& known : kKnownFailures)
    if (text.find(known.text) != text.npos) {
      const bool is_plain =
          known.failure == StoreFailure::NoBucket || known.failure == StoreFailure::NoKey;
      const auto detail = is_plain ? "" : fmt::format(" ({})", essence(text));
      return {known.failure, known.kind, fmt::format("{}: {}{}", place, known.remedy, detail)};
    }
  return {StoreFailure::Temporary, ErrorKind::Environment,
          fmt::format("{}: {}", place, essence(text))};
}

int64_t seconds_of(const std::string& http_time) {
  struct tm parts {};
  return ::strptime(http_time.c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) ? ::timegm(&parts) : 0;
}

// Where distributions keep the certificates that they trust.
std::string certificates_of_system() {
  for (const auto* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (::access(path, R_OK) == 0) return path;
  return {};
}

void finish_s3() { (void)arrow::fs::EnsureS3Finalized(); }

void start_s3() {
  auto options = arrow::fs::S3GlobalOptions::Defaults();
  options.log_level = arrow::fs::S3LogLevel::Off;
  if (const auto status = arrow::fs::InitializeS3(options); !status.ok())
    throw environment_error("Arrow cannot start its S3 client: " + essence(status.ToString()));
  // Constructs Arrow's static objects, which then exist until functions that the caller registers
  // with atexit() have been called.
  auto unused = arrow::fs::S3Options::Anonymous();
  unused.region = "us-east-1";
  unused.retry_strategy = std::make_shared<NoRetries>();
  (void)arrow::fs::S3FileSystem::Make(unused);
}

class S3Store final : public ObjectStore {
 public:
  explicit S3Store(const BucketOptions& options) : bucket_(options.bucket) {
    auto s3 = arrow::fs::S3Options::Defaults();
    if (options.is_anonymous) s3.ConfigureAnonymousCredentials();
    s3.endpoint_override = options.endpoint;
    s3.scheme = options.scheme;
    if (!options.region.empty()) s3.region = options.region;
    s3.connect_timeout = s3.request_timeout = options.timeout_s;
    s3.tls_ca_file_path = options.ca_file.empty() ? certificates_of_system() : options.ca_file;
    s3.retry_strategy = std::make_shared<NoRetries>();
    files_ = value("", arrow::fs::S3FileSystem::Make(s3));
    s3.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kPartAttempts);
    s3.background_writes = false;  // else a whole file could be in memory
    s3.check_directory_existence_before_creation = true;
    writable_files_ = value("", arrow::fs::S3FileSystem::Make(s3));
  }

  std::string access_key_id() override { return files_->options().GetAccessKey(); }

  ObjectInfo info(const std::string& key) override {
    const auto file = value(key, files_->OpenInputFile(path_of(key)));
    ObjectInfo info{.key = key, .size = value(key, file->GetSize())};
    const auto metadata = value(key, file->ReadMetadata());
    info.tag = metadata->Get("ETag").ValueOr("");
    info.modified = seconds_of(metadata->Get("Last-Modified").ValueOr(""));
    return info;
  }

  std::vector<ObjectInfo> list(const std::string& prefix, size_t limit) override {
    arrow::fs::FileSelector selector;
    selector.base_dir = path_of(prefix);
    selector.recursive = true;
    selector.allow_not_found = !prefix.empty();
    const auto next = files_->GetFileInfoGenerator(selector);
    std::vector<ObjectInfo> found;
    for (;;) {
      const auto batch = value(prefix, next().result());
      if (batch.empty()) return found;
      for (const auto& file : batch) {
        if (!file.IsFile()) continue;
        if (found.size() == limit) return found;
        const auto modified = file.mtime().time_since_epoch();
        found.push_back(
            {.key = file.path().substr(bucket_.size() + 1),
             .size = file.size(),
             .modified = std::chrono::duration_cast<std::chrono::seconds>(modified).count()});
      }
    }
  }

  void read(const ObjectInfo& object, int64_t offset, std::span<uint8_t> out) override {
    arrow::fs::FileInfo known(path_of(object.key), arrow::fs::FileType::File);
    known.set_size(object.size);
    const auto file = value(object.key, files_->OpenInputFile(known));
    const auto size = static_cast<int64_t>(out.size());
    const auto count = value(object.key, file->ReadAt(offset, size, out.data()));
    if (count != size)
      throw StoreError(StoreFailure::Temporary, ErrorKind::Environment,
                       fmt::format("{}: {} bytes instead of {} from byte {} on",
                                   name_of(object.key), count, size, offset));
  }

  void write(const std::string& key, const NextBytes& next) override {
    const auto file = value(key, writable_files_->OpenOutputStream(path_of(key)));
    std::vector<uint8_t> buffer(kPartBytes);
    try {
      while (const auto count = next(buffer))
        verify(key, file->Write(buffer.data(), static_cast<int64_t>(count)));
    } catch (...) {
      (void)file->Abort();  // the destructor would complete the object
      throw;
    }
    verify(key, file->Close());
  }

  void remove(const std::string& key) override {
    try {
      verify(key, writable_files_->DeleteFile(path_of(key)));
    } catch (const StoreError& error) {
      if (error.failure() != StoreFailure::NoKey) throw;
    }
  }

  void remove_all(const std::string& prefix) override {
    try {
      verify(prefix, writable_files_->DeleteDir(path_of(prefix)));
    } catch (const StoreError& error) {
      if (error.failure() != StoreFailure::NoKey) throw;
    }
  }

 private:
  std::string name_of(const std::string& key) const {
    return printable("s3://" + path_of(key), 400);
  }
  std::string path_of(const std::string& key) const {
    return key.empty() ? bucket_ : bucket_ + "/" + key;
  }

  template <class T>
  T value(const std::string& key, arrow::Result<T> result) const {
    if (!result.ok()) throw store_error(name_of(key), result.status());
    return std::move(result).ValueUnsafe();
  }

  void verify(const std::string& key, const arrow::Status& status) const {
    if (!status.ok()) throw store_error(name_of(key), status);
  }

  std::string bucket_;
  std::shared_ptr<arrow::fs::S3FileSystem> files_, writable_files_;
};

}  // namespace
}  // namespace lockstep::formats

extern "C" const lockstep::formats::ObjectStoreLibrary lockstep_object_stores = {
    .start = lockstep::formats::start_s3,
    .finish = lockstep::formats::finish_s3,
    .open = [](const lockstep::formats::BucketOptions& options) -> lockstep::formats::ObjectStore* {
      return new lockstep::formats::S3Store(options);
    }};
