#include "tracking/copies/bucket_path.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/store/store_path.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr double kStoreTimeoutS = 10;

}  // namespace

std::unique_ptr<formats::ObjectFolder> open_bucket_folder(const std::string& path,
                                                          const std::string& name,
                                                          const formats::Variables& environment,
                                                          std::chrono::milliseconds timeout) {
  formats::use_store_environment(environment, kStoreTimeoutS);
  auto place = formats::parse_store_path(path);
  if (!name.empty()) place.key += (place.key.empty() ? "" : "/") + name;
  return std::make_unique<formats::ObjectFolder>(std::move(place), timeout);
}

std::string server_of_bucket(const std::string& path) {
  const auto options = formats::options_of_store(formats::parse_store_path(path));
  return fmt::format("{}\n{}", options.endpoint, options.account);
}

}  // namespace lockstep::tracking

namespace lockstep {

tracking::BucketPath ConfigValue<tracking::BucketPath>::read(const ConfigNode& node,
                                                             const std::string& path) {
  const auto text = ConfigValue<std::string>::read(node, path);
  const bool is_bucket = text.starts_with("s3://") || text.starts_with("gs://") ||
                         text.starts_with("abfs://") || text.starts_with("abfss://") ||
                         text.starts_with("az://");
  if (!is_bucket)
    throw config_error(fmt::format("{}: '{}' is not in a bucket; valid: s3://bucket/prefix",
                                   fmt::format("{}: {}", node.origin, path), printable(text, 200)));
  // Without its options, which would be completed with the environment, whose settings may follow.
  formats::parse_store_path(text.substr(0, text.find('?')));
  return {text};
}

Json ConfigValue<tracking::BucketPath>::schema() {
  return {{"type", "string"}, {"pattern", "^(s3|gs|abfs|abfss|az)://"}};
}

}  // namespace lockstep
