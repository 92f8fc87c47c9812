#include "trainer/prepared/object_stores.h"

#include <fmt/format.h>

#include <fstream>

#include "core/printable.h"
#include "core/trimmed.h"
#include "formats/store/object_cache.h"
#include "lockstep/error.h"
#include "lockstep/rank_env.h"

namespace lockstep::trainer {
namespace {

namespace fs = std::filesystem;

std::optional<std::string> first_variable(std::initializer_list<const char*> names) {
  for (const auto* name : names)
    if (auto value = environment(name)) return value;
  return std::nullopt;
}

// "http://host:port/" -> http, host:port
void set_endpoint(formats::BucketOptions& options, const char* variable, const std::string& url) {
  const auto end = url.find("://");
  const auto scheme = url.substr(0, end);
  if (end == url.npos || (scheme != "http" && scheme != "https") || end + 3 == url.size())
    throw config_error(
        fmt::format("{}: '{}' is not an endpoint; valid: http://host:port or https://host:port",
                    variable, printable(url, 200)));
  options.scheme = scheme;
  options.endpoint = url.substr(end + 3);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
}

formats::BucketOptions options_of_s3() {
  formats::BucketOptions options;
  if (const auto url = first_variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}))
    set_endpoint(options, "AWS_ENDPOINT_URL", *url);
  // Without a region, Arrow would ask the metadata server of EC2, which others do not have.
  const auto* usual = options.endpoint.empty() ? "" : "us-east-1";
  options.region = first_variable({"AWS_REGION", "AWS_DEFAULT_REGION"}).value_or(usual);
  options.ca_file = environment("AWS_CA_BUNDLE").value_or("");
  return options;
}

// The client reads GOOGLE_APPLICATION_CREDENTIALS itself.
formats::BucketOptions options_of_gcs() {
  formats::BucketOptions options{.kind = formats::StoreKind::Gcs};
  constexpr const char* kEmulator = "STORAGE_EMULATOR_HOST";
  if (auto url = environment(kEmulator)) {
    if (url->find("://") == url->npos) url->insert(0, "http://");
    set_endpoint(options, kEmulator, *url);
  }
  return options;
}

formats::BucketOptions options_of_azure() {
  formats::BucketOptions options{.kind = formats::StoreKind::Azure};
  if (const auto url = environment("AZURE_STORAGE_ENDPOINT"))
    set_endpoint(options, "AZURE_STORAGE_ENDPOINT", *url);
  options.account =
      first_variable({"AZURE_STORAGE_ACCOUNT", "AZURE_STORAGE_ACCOUNT_NAME"}).value_or("");
  options.account_key =
      first_variable({"AZURE_STORAGE_KEY", "AZURE_STORAGE_ACCOUNT_KEY"}).value_or("");
  options.token = environment("AZURE_STORAGE_SAS_TOKEN").value_or("");
  if (!options.token.empty() && !options.token.starts_with('?')) options.token.insert(0, "?");
  return options;
}

// As curl: http_proxy in upper case is not one, as it could be the header Proxy of a CGI request.
HttpProxies http_proxies() {
  const auto all = first_variable({"all_proxy", "ALL_PROXY"}).value_or("");
  return {.http = first_variable({"http_proxy"}).value_or(all),
          .https = first_variable({"https_proxy", "HTTPS_PROXY"}).value_or(all),
          .excluded = first_variable({"no_proxy", "NO_PROXY"}).value_or("")};
}

fs::path directory_of_cache(const ObjectCacheConfig& config) {
  if (config.dir) return *config.dir;
  if (const auto cache = environment("XDG_CACHE_HOME"))
    return fs::path(*cache) / "lockstep/objects";
  if (const auto home = environment("HOME")) return fs::path(*home) / ".cache/lockstep/objects";
  return fs::temp_directory_path() / "lockstep-objects";
}

// As huggingface_hub finds it.
fs::path token_file() {
  if (const auto path = environment("HF_TOKEN_PATH")) return *path;
  if (const auto home = environment("HF_HOME")) return fs::path(*home) / "token";
  if (const auto cache = environment("XDG_CACHE_HOME"))
    return fs::path(*cache) / "huggingface/token";
  const auto home = environment("HOME");
  return home ? fs::path(*home) / ".cache/huggingface/token" : fs::path();
}

formats::HubOptions hub_options() {
  formats::HubOptions options;
  if (auto url = environment("HF_ENDPOINT")) {
    while (url->ends_with('/')) url->pop_back();
    options.endpoint = *url;
  }
  for (const auto* name : {"HF_TOKEN", "HUGGING_FACE_HUB_TOKEN"})
    if (options.token.empty()) options = {options.endpoint, environment(name).value_or(""), name};
  if (options.token.empty()) {
    const auto path = token_file();
    std::ifstream file(path);
    options.token_source = path.string();
    std::getline(file, options.token);
  }
  options.token = trimmed(options.token, " \t\r\n");
  return options;
}

}  // namespace

void use_object_stores(const ObjectCacheConfig& config) {
  for (auto options : {options_of_s3(), options_of_gcs(), options_of_azure()}) {
    options.timeout_s = std::chrono::duration<double>(config.request_timeout.value).count();
    formats::set_default_bucket_options(options);
  }
  formats::set_hub_options(hub_options());
  formats::set_http_proxies(http_proxies());
  formats::set_object_cache({.directory = fs::absolute(directory_of_cache(config)),
                             .max_bytes = config.max_mb * 1'000'000,
                             .connections = static_cast<int>(config.connections),
                             .timeout = config.timeout.value});
}

}  // namespace lockstep::trainer
