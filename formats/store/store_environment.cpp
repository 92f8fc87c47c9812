#include "formats/store/store_environment.h"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>

#include "core/http/http_proxies.h"
#include "core/printable.h"
#include "core/trimmed.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_variable(const Variables& variables,
                                          std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (auto value = variables(name)) return value;
  return std::nullopt;
}

// "http://host:port/" -> http, host:port
void set_endpoint_of(BucketOptions& options, const char* variable, const std::string& url) {
  const auto end = url.find("://");
  const auto scheme = url.substr(0, end);
  if (url.find('@') != url.npos)  // would be shown
    throw config_error(
        fmt::format("{}: a user is not part of an endpoint; valid: http://host:port or "
                    "https://host:port",
                    variable));
  if (end == url.npos || (scheme != "http" && scheme != "https") || end + 3 == url.size())
    throw config_error(
        fmt::format("{}: '{}' is not an endpoint; valid: http://host:port or https://host:port",
                    variable, printable(url, 200)));
  options.scheme = scheme;
  options.endpoint = url.substr(end + 3);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
}

BucketOptions options_of_s3(const Variables& variables) {
  BucketOptions options;
  if (const auto url = first_variable(variables, {"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}))
    set_endpoint_of(options, "AWS_ENDPOINT_URL", *url);
  // Without a region, Arrow would ask the metadata server of EC2, which others do not have.
  const auto* usual = options.endpoint.empty() ? "" : "us-east-1";
  options.region = first_variable(variables, {"AWS_REGION", "AWS_DEFAULT_REGION"}).value_or(usual);
  options.ca_file = variables("AWS_CA_BUNDLE").value_or("");
  return options;
}

// The client reads GOOGLE_APPLICATION_CREDENTIALS itself.
BucketOptions options_of_gcs(const Variables& variables) {
  BucketOptions options{.kind = StoreKind::Gcs};
  constexpr const char* kEmulator = "STORAGE_EMULATOR_HOST";
  if (auto url = variables(kEmulator)) {
    if (url->find("://") == url->npos) url->insert(0, "http://");
    set_endpoint_of(options, kEmulator, *url);
  }
  return options;
}

BucketOptions options_of_azure(const Variables& variables) {
  BucketOptions options{.kind = StoreKind::Azure};
  if (const auto url = variables("AZURE_STORAGE_ENDPOINT"))
    set_endpoint_of(options, "AZURE_STORAGE_ENDPOINT", *url);
  options.account =
      first_variable(variables, {"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"})
          .value_or("");
  options.account_key =
      first_variable(variables, {"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"}).value_or("");
  options.token = variables("AZURE_STORAGE_SAS_TOKEN").value_or("");
  if (!options.token.empty() && !options.token.starts_with('?')) options.token.insert(0, "?");
  return options;
}

// As huggingface_hub finds it.
fs::path token_file(const Variables& variables) {
  if (const auto path = variables("HF_TOKEN_PATH")) return *path;
  if (const auto home = variables("HF_HOME")) return fs::path(*home) / "token";
  if (const auto cache = variables("XDG_CACHE_HOME")) return fs::path(*cache) / "huggingface/token";
  const auto home = variables("HOME");
  return home ? fs::path(*home) / ".cache/huggingface/token" : fs::path();
}

HubOptions hub_options(const Variables& variables) {
  HubOptions options;
  if (auto url = variables("HF_ENDPOINT")) {
    while (url->ends_with('/')) url->pop_back();
    options.endpoint = *url;
  }
  for (const auto* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (options.token.empty()) options = {options.endpoint, variables(name).value_or(""), name};
  if (options.token.empty()) {
    const auto path = token_file(variables);
    std::ifstream file(path);
    options.token_source = path.string();
    std::getline(file, options.token);
  }
  options.token = trimmed(options.token, " \t\r\n");
  return options;
}

}  // namespace

void use_store_environment(const Variables& variables, double request_timeout_s) {
  for (auto options :
       {options_of_s3(variables), options_of_gcs(variables), options_of_azure(variables)}) {
    options.timeout_s = request_timeout_s;
    set_default_bucket_options(options);
  }
  set_hub_options(hub_options(variables));
  set_http_proxies(read_http_proxies(variables));
}

}  // namespace lockstep::formats
