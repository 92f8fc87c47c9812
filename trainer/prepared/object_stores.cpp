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
void set_endpoint(formats::BucketOptions& options, const std::string& url) {
  const auto end = url.find("://");
  const auto scheme = url.substr(0, end);
  if (end == url.npos || (scheme != "http" && scheme != "https") || end + 3 == url.size())
    throw config_error(
        fmt::format("AWS_ENDPOINT_URL: '{}' is not an endpoint; valid: "
                    "http://host:port or https://host:port",
                    printable(url, 200)));
  options.scheme = scheme;
  options.endpoint = url.substr(end + 3);
  while (options.endpoint.ends_with('/')) options.endpoint.pop_back();
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
  formats::BucketOptions options;
  if (const auto url = first_variable({"AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"}))
    set_endpoint(options, *url);
  // Without a region, Arrow would ask the metadata server of EC2, which others do not have.
  const auto* usual = options.endpoint.empty() ? "" : "us-east-1";
  options.region = first_variable({"AWS_REGION", "AWS_DEFAULT_REGION"}).value_or(usual);
  options.ca_file = environment("AWS_CA_BUNDLE").value_or("");
  options.timeout_s = std::chrono::duration<double>(config.request_timeout.value).count();
  formats::set_default_bucket_options(options);
  formats::set_hub_options(hub_options());
  formats::set_object_cache({.directory = fs::absolute(directory_of_cache(config)),
                             .max_bytes = config.max_mb * 1'000'000,
                             .connections = static_cast<int>(config.connections),
                             .timeout = config.timeout.value});
}

}  // namespace lockstep::trainer
