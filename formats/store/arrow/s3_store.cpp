// Amazon S3, and servers with its interface, through Arrow's S3 file system.
#include <arrow/filesystem/s3fs.h>
#include <unistd.h>

#include <array>

#include "core/printable.h"
#include "formats/store/arrow/arrow_store.h"

namespace lockstep::formats {
namespace {

// The caller repeats requests.
class NoRetries final : public arrow::fs::S3RetryStrategy {
 public:
  bool ShouldRetry(const AWSErrorDetail&, int64_t) override { return false; }
  int64_t CalculateDelayBeforeNextRetry(const AWSErrorDetail&, int64_t) override { return 0; }
};

constexpr const char* kS3Remedy =
    "check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; a public bucket needs "
    "?anonymous=true";

// The first match counts.
constexpr std::array<KnownFailure, 24> kS3Failures = {{
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
    {"INVALID_ACCESS_KEY_ID", StoreFailure::Credentials, ErrorKind::Config, kS3Remedy},
    {"INVALID_CLIENT_TOKEN_ID", StoreFailure::Credentials, ErrorKind::Config, kS3Remedy},
    {"InvalidToken", StoreFailure::Credentials, ErrorKind::Config,
     "the session token is invalid: check AWS_SESSION_TOKEN"},
    {"UserNotFound", StoreFailure::Credentials, ErrorKind::Config, kS3Remedy},
    {"SIGNATURE_DOES_NOT_MATCH", StoreFailure::Credentials, ErrorKind::Config, kS3Remedy},
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
    {"(HTTP status 416)", StoreFailure::Other, ErrorKind::Environment, kObjectChanged},
}};

constexpr int kPartAttempts = 5;

// What went wrong, from "When ...: AWS Error CODE during Operation operation: text".
std::string_view essence_of_s3(std::string_view message) {
  const auto begin = message.find("AWS Error ");
  return begin == message.npos ? message : message.substr(begin + 10);
}

// Where distributions keep the certificates that they trust.
std::string certificates_of_system() {
  for (const auto* path : {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                           "/etc/ssl/ca-bundle.pem", "/etc/ssl/cert.pem"})
    if (::access(path, R_OK) == 0) return path;
  return {};
}

class S3Store final : public ArrowStore {
 public:
  explicit S3Store(const BucketOptions& options)
      : ArrowStore("s3://" + options.bucket, options.bucket) {
    auto s3 = arrow::fs::S3Options::Defaults();
    if (options.is_anonymous) s3.ConfigureAnonymousCredentials();
    s3.endpoint_override = options.endpoint;
    s3.scheme = options.scheme;
    if (!options.region.empty()) s3.region = options.region;
    s3.connect_timeout = s3.request_timeout = options.timeout_s;
    s3.tls_ca_file_path = options.ca_file.empty() ? certificates_of_system() : options.ca_file;
    s3.retry_strategy = std::make_shared<NoRetries>();
    files_ = files_of(s3);
    s3.retry_strategy = arrow::fs::S3RetryStrategy::GetAwsStandardRetryStrategy(kPartAttempts);
    s3.background_writes = false;  // else a whole file could be in memory
    s3.check_directory_existence_before_creation = true;
    set_files(files_, files_of(s3));
  }

  std::string access_key_id() override { return files_->options().GetAccessKey(); }

 private:
  void set_version(ObjectInfo& info, const arrow::KeyValueMetadata& metadata) const override {
    info.tag = metadata.Get("ETag").ValueOr("");
    info.modified = seconds_of_iso_time(metadata.Get("Last-Modified").ValueOr(""));
  }

  StoreError error_of(const std::string& place, const std::string& message) const override {
    return known_error(kS3Failures, place, message, essence_of_s3(message));
  }

  std::shared_ptr<arrow::fs::S3FileSystem> files_of(const arrow::fs::S3Options& options) const {
    auto files = arrow::fs::S3FileSystem::Make(options);
    if (!files.ok()) throw error_of("s3", files.status().ToString());
    return *files;
  }

  std::shared_ptr<arrow::fs::S3FileSystem> files_;
};

}  // namespace

void finish_s3() { (void)arrow::fs::EnsureS3Finalized(); }

void start_s3() {
  auto options = arrow::fs::S3GlobalOptions::Defaults();
  options.log_level = arrow::fs::S3LogLevel::Off;
  if (const auto status = arrow::fs::InitializeS3(options); !status.ok())
    throw environment_error("Arrow cannot start its S3 client: " +
                            printable(std::string(essence_of_s3(status.ToString())), 200));
  auto unused = arrow::fs::S3Options::Anonymous();
  unused.region = "us-east-1";
  unused.retry_strategy = std::make_shared<NoRetries>();
  (void)arrow::fs::S3FileSystem::Make(unused);
}

ObjectStore* open_s3(const BucketOptions& options) { return new S3Store(options); }

}  // namespace lockstep::formats
