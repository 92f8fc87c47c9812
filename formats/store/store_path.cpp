#include "formats/store/store_path.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "core/config/nearest_name.h"
#include "core/http/http_client.h"
#include "core/printable.h"
#include "core/system/mutex.h"

namespace lockstep::formats {
namespace {

struct KnownBuckets {
  Mutex mutex;
  std::map<StoreKind, BucketOptions> defaults GUARDED_BY(mutex);
  HubOptions hub GUARDED_BY(mutex);
  HttpProxies proxies GUARDED_BY(mutex);
  std::map<std::pair<StoreKind, std::string>, BucketOptions> all GUARDED_BY(mutex);
};

KnownBuckets& known_buckets() {
  static KnownBuckets buckets;
  return buckets;
}

// "/a/b/" -> "a/b"
std::string without_outer_slashes(const std::string& text) {
  const auto begin = text.find_first_not_of('/');
  if (begin == text.npos) return {};
  return text.substr(begin, text.find_last_not_of('/') - begin + 1);
}

void set_bucket_option(BucketOptions& options, const std::string& name, const std::string& value,
                       const std::string& path) {
  const auto refused = [&](const std::string& why) {
    return config_error(fmt::format("{}: {}", path, why));
  };
  std::vector<std::string> valid{"endpoint_override", "scheme", "anonymous"};
  if (options.kind == StoreKind::S3) valid.emplace_back("region");
  if (std::ranges::find(valid, name) == valid.end())
    throw refused(fmt::format("unknown option '{}'{}", printable(name, 40), suggest(name, valid)));
  if (name == "endpoint_override" && value.find('@') != value.npos)
    throw refused(
        "endpoint_override: a user does not belong into a path; valid: host or host:port");
  if (name == "scheme" && value != "http" && value != "https")
    throw refused("scheme must be http or https");
  if (name == "anonymous" && value != "true" && value != "false")
    throw refused("anonymous must be true or false");
  if (name == "endpoint_override")
    options.endpoint = value;
  else if (name == "scheme")
    options.scheme = value;
  else if (name == "region")
    options.region = value;
  else
    options.is_anonymous = value == "true";
}

// Not of a name that only begins like an address, such as 127.0.0.1.example.org.
bool is_this_host(const std::string& host) {
  in_addr address{};
  const bool is_numeric = ::inet_pton(AF_INET, host.c_str(), &address) == 1;
  return host == "localhost" || host == "::1" || (is_numeric && host.starts_with("127."));
}

std::optional<StoreKind> kind_of_bucket(const std::string& scheme) {
  if (scheme == "s3") return StoreKind::S3;
  if (scheme == "gs") return StoreKind::Gcs;
  if (scheme == "abfs" || scheme == "abfss" || scheme == "az") return StoreKind::Azure;
  return std::nullopt;
}

// The address of a bucket's server. Throws Config, also if it is more than a host and port.
HttpAddress server_of(const BucketOptions& options) {
  auto server = parse_http_address(options.scheme + "://" + options.endpoint, options.bucket);
  if (options.endpoint.find_first_of("/@?#") != options.endpoint.npos)
    throw config_error(options.bucket + ": endpoint_override must be host or host:port");
  return server;
}

// A token is sent with each request, so no other server gets it.
void complete_gcs(BucketOptions& options) {
  if (options.endpoint.empty()) options.endpoint = "storage.googleapis.com";
  const auto server = server_of(options);
  if (!server.tls || !server.host.ends_with(".googleapis.com")) options.is_anonymous = true;
}

constexpr std::array kAzureClouds = {"core.windows.net", "core.usgovcloudapi.net",
                                     "core.chinacloudapi.cn"};

// CONTAINER@ACCOUNT, CONTAINER@ACCOUNT.dfs.core.windows.net or CONTAINER. Key and token belong to
// the account of `options`.
void complete_azure(BucketOptions& options) {
  const auto refused = [&](const std::string& why) {
    return config_error(fmt::format("{}://{}: {}; valid: abfss://CONTAINER@ACCOUNT/path",
                                    options.path_scheme, printable(options.bucket, 200), why));
  };
  const auto at = options.bucket.find('@');
  const auto host = at == options.bucket.npos ? options.account : options.bucket.substr(at + 1);
  const auto dot = std::min(host.find('.'), host.size());
  const auto account = host.substr(0, dot);
  if (account.empty()) throw refused("the storage account is missing: set AZURE_STORAGE_ACCOUNT");
  std::string endpoint = "blob.core.windows.net";
  if (dot < host.size()) {
    const auto known = std::ranges::find_if(kAzureClouds, [&](const std::string& cloud) {
      return host.substr(dot) == ".dfs." + cloud || host.substr(dot) == ".blob." + cloud;
    });
    if (known == kAzureClouds.end())
      throw refused(host.substr(dot) + " is not a server of Azure, such as .dfs.core.windows.net");
    endpoint = std::string("blob.") + *known;
  }
  if (!options.account.empty() && options.account != account)
    options.account_key = options.token = "";
  options.container = options.bucket.substr(0, at);
  options.account = account;
  if (options.endpoint.empty()) {
    options.endpoint = endpoint;
    return;
  }
  if (options.is_anonymous || !options.account_key.empty()) return;  // sends no secret
  if (!is_this_host(server_of(options).host))
    throw refused(
        "a token is sent to servers of Azure only: with another endpoint, set "
        "AZURE_STORAGE_KEY, or ?anonymous=true");
}

// The number of characters before "://"; npos: there is no scheme.
size_t scheme_length(const std::string& text) {
  const auto end = text.find("://");
  const auto is_part = [](unsigned char c) {
    return std::isalnum(c) || c == '+' || c == '-' || c == '.';
  };
  const bool is_scheme =
      end != text.npos && end > 0 && std::all_of(text.begin(), text.begin() + end, is_part);
  return is_scheme ? end : text.npos;
}

Error credentials_in_path(const std::string& scheme) {
  const auto* remedy = scheme == "gs" ? "set GOOGLE_APPLICATION_CREDENTIALS"
                       : scheme == "s3"
                           ? "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE"
                           : "set AZURE_STORAGE_KEY or AZURE_STORAGE_SAS_TOKEN";
  return config_error(fmt::format(
      "{}://...@...: credentials do not belong into a path, which is stored with the run; {}",
      scheme, remedy));
}

// s3://bucket/key?options
StorePath parse_bucket(const std::string& scheme, const std::string& place, size_t question,
                       const std::string& name) {
  const auto kind = *kind_of_bucket(scheme);
  const auto text = place.substr(0, question);
  const auto slash = std::min(text.find('/'), text.size());
  StorePath parsed{text.substr(0, slash), without_outer_slashes(text.substr(slash)), scheme};
  const auto num_ats = std::ranges::count(parsed.bucket, '@');
  if (num_ats > (kind == StoreKind::Azure ? 1 : 0) ||
      (num_ats > 0 && parsed.bucket.find(':') != parsed.bucket.npos))
    throw credentials_in_path(scheme);
  if (parsed.bucket.empty() || parsed.bucket.starts_with('@'))
    throw config_error(fmt::format(
        "{}: the name of a {} is missing; valid: {}", name,
        kind == StoreKind::Azure ? "container" : "bucket",
        kind == StoreKind::Azure ? "abfss://CONTAINER@ACCOUNT/path" : scheme + "://bucket/key"));
  if (question == place.npos) return parsed;
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  auto options = buckets.defaults[kind];
  options.kind = kind;
  for (auto begin = question + 1; begin < place.size();) {
    const auto end = std::min(place.find('&', begin), place.size());
    const auto equals = std::min(place.find('=', begin), end);
    set_bucket_option(options, place.substr(begin, equals - begin),
                      equals < end ? place.substr(equals + 1, end - equals - 1) : "", name);
    begin = end + 1;
  }
  const auto [known, is_new] = buckets.all.emplace(std::pair(kind, parsed.bucket), options);
  if (!is_new && known->second != options)
    throw config_error(fmt::format(
        "{}: its options after '?' differ from those of another path in this bucket", name));
  return parsed;
}

// https://host:port/path
StorePath parse_url(const std::string& scheme, const std::string& place, const std::string& name) {
  const auto slash = std::min(place.find_first_of("/?#"), place.size());
  StorePath parsed{place.substr(0, slash), place.substr(slash), scheme};
  if (parsed.bucket.find('@') != parsed.bucket.npos)
    throw config_error(scheme +
                       "://...@...: credentials do not belong into a path, which is stored with "
                       "the run; valid: a public file, https://host/path");
  if (parsed.key.find('?') != parsed.key.npos)
    throw config_error(name +
                       "?...: a query is not supported, as it can contain a secret and the path is "
                       "stored with the run; valid: https://host/path");
  if (parsed.key.find('#') != parsed.key.npos)
    throw config_error(name + ": '#' is not part of the path of a file; write %23");
  if (parsed.bucket.empty())
    throw config_error(name + ": the host is missing; valid: https://host/path");
  if (parsed.key.empty() || parsed.key.ends_with('/'))
    throw config_error(name +
                       ": the files of a folder cannot be listed over HTTP; valid: one file, "
                       "https://host/path, or for webdataset https://host/train-{0000..0146}.tar");
  parsed.key.erase(0, 1);
  return parsed;
}

// The length of a revision at the beginning of `text`: as huggingface_hub, up to a slash, or
// refs/pr/NUMBER or refs/convert/NAME.
size_t revision_length(const std::string& text) {
  auto end = text.find('/');
  for (const auto* special : {"refs/pr/", "refs/convert/"})
    if (text.starts_with(special)) end = text.find('/', std::string_view(special).size());
  return std::min(end, text.size());
}

// hf://datasets/OWNER/NAME@REVISION/path
StorePath parse_repository(const std::string& place, const std::string& name) {
  const auto refused = [&](const std::string& why) {
    return config_error(
        fmt::format("{}: {}; valid: hf://datasets/OWNER/NAME/path, or "
                    "hf://datasets/OWNER/NAME@REVISION/path",
                    name, why));
  };
  constexpr std::string_view kKind = "datasets/";
  if (!place.starts_with(kKind)) throw refused("not in a dataset repository");
  const auto owner = place.find('/', kKind.size());
  if (owner == place.npos || owner == kKind.size()) throw refused("owner or name is missing");
  auto end = std::min(place.find_first_of("/@", owner + 1), place.size());
  if (end == owner + 1) throw refused("the name is missing");
  if (end < place.size() && place[end] == '@') {
    const auto length = revision_length(place.substr(end + 1));
    if (length == 0) throw refused("the revision after '@' is empty");
    end += 1 + length;
  }
  if (place.find_first_of("?#") < end) throw refused("'?' and '#' are not part of a name");
  return {place.substr(0, end), without_outer_slashes(place.substr(end)), "hf"};
}

// Names a secret in no message, and sends none without encryption.
void verify_hub(const HubOptions& hub) {
  const auto address = parse_http_address(hub.endpoint, "HF_ENDPOINT");
  const bool has_user = !address.user.empty() || !address.password.empty();
  if (has_user || hub.endpoint.find_first_of("@?#") != hub.endpoint.npos)
    throw config_error(
        "HF_ENDPOINT: a user, '?' and '#' are not part of the address of a hub; valid: "
        "https://host, with the token in HF_TOKEN");
  if (!address.tls && !hub.token.empty() && !is_this_host(address.host))
    throw config_error(fmt::format(
        "HF_ENDPOINT: {} is not encrypted, so the token from {} would be readable; valid: https://",
        printable(hub.endpoint, 200), printable(hub.token_source, 200)));
}

}  // namespace

bool has_scheme(const std::filesystem::path& path) {
  return scheme_length(path.native()) != std::string::npos;
}

StorePath parse_store_path(const std::filesystem::path& path) {
  const auto& text = path.native();
  const auto length = scheme_length(text);
  check(length != text.npos, "a path without a scheme is not in an object store");
  const auto scheme = text.substr(0, length), place = text.substr(length + 3);
  const auto question = place.find('?');
  const auto name = printable(text.substr(0, text.find('?')), 400);
  if (kind_of_bucket(scheme)) return parse_bucket(scheme, place, question, name);
  if (scheme == "https" || scheme == "http") return parse_url(scheme, place, name);
  if (scheme == "hf") return parse_repository(place, name);
  throw config_error(
      fmt::format("{}: unknown scheme '{}'; supported: s3://bucket/key, gs://bucket/key, "
                  "abfss://CONTAINER@ACCOUNT/path, https://host/path, "
                  "hf://datasets/OWNER/NAME/path, or a path without a scheme",
                  name, printable(scheme, 40)));
}

void set_default_bucket_options(const BucketOptions& options) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  buckets.defaults[options.kind] = options;
}

void set_hub_options(const HubOptions& options) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  buckets.hub = options;
}

void set_http_proxies(const HttpProxies& proxies) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  buckets.proxies = proxies;
}

BucketOptions options_of_store(const StorePath& place) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  const auto timeout_s = buckets.defaults[StoreKind::S3].timeout_s;
  if (place.scheme == "hf") {
    verify_hub(buckets.hub);
    return {.kind = StoreKind::Hub,
            .bucket = place.bucket,
            .endpoint = buckets.hub.endpoint,
            .token = buckets.hub.token,
            .token_source = buckets.hub.token_source,
            .proxies = buckets.proxies,
            .timeout_s = timeout_s};
  }
  const auto kind = kind_of_bucket(place.scheme);
  if (!kind)
    return {.kind = StoreKind::Http,
            .bucket = place.bucket,
            .endpoint = place.scheme + "://" + place.bucket,
            .scheme = place.scheme,
            .proxies = buckets.proxies,
            .timeout_s = timeout_s};
  const auto known = buckets.all.find({*kind, place.bucket});
  auto options = known != buckets.all.end() ? known->second : buckets.defaults[*kind];
  options.kind = *kind;
  options.bucket = place.bucket;
  options.path_scheme = place.scheme;
  if (*kind == StoreKind::Gcs) complete_gcs(options);
  if (*kind == StoreKind::Azure) complete_azure(options);
  return options;
}

}  // namespace lockstep::formats
