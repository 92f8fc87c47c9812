#include "formats/store/store_path.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "core/config/nearest_name.h"
#include "core/printable.h"
#include "core/system/mutex.h"

namespace lockstep::formats {
namespace {

struct KnownBuckets {
  Mutex mutex;
  BucketOptions defaults GUARDED_BY(mutex);
  std::map<std::string, BucketOptions> all GUARDED_BY(mutex);
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
  else if (name == "anonymous")
    options.is_anonymous = value == "true";
  else
    throw refused(
        fmt::format("unknown option '{}'{}", printable(name, 40),
                    suggest(name, {"endpoint_override", "scheme", "region", "anonymous"})));
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

}  // namespace

bool has_scheme(const std::filesystem::path& path) {
  return scheme_length(path.native()) != std::string::npos;
}

StorePath parse_store_path(const std::filesystem::path& path) {
  const auto& text = path.native();
  const auto length = scheme_length(text);
  check(length != text.npos, "a path without a scheme is not in an object store");
  const auto question = text.find('?');
  const auto place = text.substr(length + 3, question - std::min(question, length + 3));
  const auto name = printable(text.substr(0, question), 400);
  if (text.substr(0, length) != "s3")
    throw config_error(
        fmt::format("{}: unknown scheme '{}'; supported: s3://bucket/key, or a path "
                    "without a scheme",
                    name, printable(text.substr(0, length), 40)));
  const auto slash = std::min(place.find('/'), place.size());
  StorePath parsed{place.substr(0, slash), without_outer_slashes(place.substr(slash))};
  if (parsed.bucket.find('@') != parsed.bucket.npos)
    throw config_error(
        "s3://...@...: credentials do not belong into a path, which is stored with the run; set "
        "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE");
  if (parsed.bucket.empty())
    throw config_error(name + ": the name of a bucket is missing; valid: s3://bucket/key");
  if (question == text.npos) return parsed;
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  auto options = buckets.defaults;
  options.bucket = parsed.bucket;
  for (auto begin = question + 1; begin < text.size();) {
    const auto end = std::min(text.find('&', begin), text.size());
    const auto equals = std::min(text.find('=', begin), end);
    set_bucket_option(options, text.substr(begin, equals - begin),
                      equals < end ? text.substr(equals + 1, end - equals - 1) : "", name);
    begin = end + 1;
  }
  const auto [known, is_new] = buckets.all.emplace(parsed.bucket, options);
  if (!is_new && known->second != options)
    throw config_error(fmt::format(
        "{}: its options after '?' differ from those of another path in this bucket", name));
  return parsed;
}

void set_default_bucket_options(const BucketOptions& options) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  buckets.defaults = options;
}

BucketOptions options_of_bucket(const std::string& bucket) {
  auto& buckets = known_buckets();
  const MutexLock lock(buckets.mutex);
  const auto known = buckets.all.find(bucket);
  if (known != buckets.all.end()) return known->second;
  auto options = buckets.defaults;
  options.bucket = bucket;
  return options;
}

}  // namespace lockstep::formats
