// Azure Blob Storage and Data Lake Storage, through Arrow's file system.
#include <arrow/filesystem/azurefs.h>

#include <array>

#include "formats/store/arrow/arrow_store.h"

namespace lockstep::formats {
namespace {

constexpr const char* kAzureRemedy =
    "no valid credentials: set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN of this account, or "
    "log in with `az login`; a public container needs ?anonymous=true";

// The first match counts.
constexpr std::array<KnownFailure, 21> kAzureFailures = {{
    {"ContainerNotFound", StoreFailure::NoBucket, ErrorKind::Config, "no such container"},
    {"ContainerBeingDeleted", StoreFailure::NoBucket, ErrorKind::Config, "no such container"},
    {"Path does not exist", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"BlobNotFound", StoreFailure::NoKey, ErrorKind::Config, "no such object"},
    {"ResourceNotFound", StoreFailure::NoBucket, ErrorKind::Config, "no such account or container"},
    {"AuthenticationException", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"specified time frame", StoreFailure::Expired, ErrorKind::Environment,
     "the credentials have expired: renew AZURE_STORAGE_SAS_TOKEN"},
    {"failed to authenticate", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"AuthenticationFailed", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"InvalidAuthenticationInfo", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"NoAuthenticationInformation", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"Base64", StoreFailure::Credentials, ErrorKind::Config,
     "AZURE_STORAGE_KEY is not a key, which is Base64"},
    {"PublicAccessNotPermitted", StoreFailure::Denied, ErrorKind::Config,
     "access denied: the account permits no anonymous access"},
    {"] 403", StoreFailure::Denied, ErrorKind::Config,
     "access denied: the credentials do not permit this"},
    {"SSL peer certificate", StoreFailure::Other, ErrorKind::Config,
     "the server's certificate is not trusted: set SSL_CERT_FILE to the file of its authority"},
    {"] 400", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"] 401", StoreFailure::Credentials, ErrorKind::Config, kAzureRemedy},
    {"] 405", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"] 409", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"] 412", StoreFailure::Other, ErrorKind::Config, "the server refused the request"},
    {"] 416", StoreFailure::Other, ErrorKind::Environment, kObjectChanged},
}};

// What went wrong, from "... failed for 'https://...'. Azure Error: [Code] 404 text". The URL has the
// SAS token, so no other text is shown.
std::string_view essence_of_azure(std::string_view message) {
  const auto* otherwise = message.find("AuthenticationException") != message.npos
                              ? "there is no token of an identity"
                              : "the client failed";
  return text_between(message, "Azure Error: ", "\n", otherwise);
}

// The error of a call that configures the options, which shows none of them.
void verify_option(const arrow::Status& status) {
  if (!status.ok())
    throw StoreError(StoreFailure::Credentials, ErrorKind::Config,
                     std::string("Azure: ") + kAzureRemedy);
}

class AzureStore final : public ArrowStore {
 public:
  explicit AzureStore(const BucketOptions& options)
      : ArrowStore(options.path_scheme + "://" + options.bucket, options.container) {
    arrow::fs::AzureOptions azure;
    azure.account_name = options.account;
    azure.blob_storage_scheme = azure.dfs_storage_scheme = options.scheme;
    constexpr std::string_view kBlob = "blob.";
    if (options.endpoint.starts_with(kBlob)) {
      azure.blob_storage_authority = "." + options.endpoint;
      azure.dfs_storage_authority = ".dfs." + options.endpoint.substr(kBlob.size());
    } else {
      azure.blob_storage_authority = azure.dfs_storage_authority = options.endpoint;
    }
    azure.background_writes = false;  // else a whole file could be in memory
    if (options.is_anonymous)
      verify_option(azure.ConfigureAnonymousCredential());
    else if (!options.account_key.empty())
      verify_option(azure.ConfigureAccountKeyCredential(options.account_key));
    else if (!options.token.empty())
      verify_option(azure.ConfigureSASCredential(options.token));
    else
      verify_option(azure.ConfigureDefaultCredential());
    const auto files = arrow::fs::AzureFileSystem::Make(azure);
    if (!files.ok()) throw error_of(options.bucket, files.status().ToString());
    set_files(*files, *files);
  }

 private:
  void set_version(ObjectInfo& info, const arrow::KeyValueMetadata& metadata) const override {
    info.tag = metadata.Get("ETag").ValueOr("");
    info.modified = seconds_of_iso_time(metadata.Get("Last-Modified").ValueOr(""));
  }

  StoreError error_of(const std::string& place, const std::string& message) const override {
    return known_error(kAzureFailures, place, message, essence_of_azure(message));
  }
};

}  // namespace

void start_azure() {
  arrow::fs::AzureOptions unused;
  unused.account_name = "unused";
  (void)unused.ConfigureAnonymousCredential();
  (void)arrow::fs::AzureFileSystem::Make(unused);
}

ObjectStore* open_azure(const BucketOptions& options) { return new AzureStore(options); }

}  // namespace lockstep::formats
