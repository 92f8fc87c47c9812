#include "tracking/http/public_url.h"

#include <fmt/format.h>

#include <cctype>

#include "core/http/http_client.h"
#include "lockstep/error.h"

namespace lockstep::tracking {
namespace {

constexpr size_t kMinSecretLength = 16;

bool looks_generated(const std::string& path) {
  size_t length = 0;
  bool has_digit = false;
  for (const unsigned char c : path) {
    length = std::isalnum(c) ? length + 1 : 0;
    has_digit = length > 0 && (has_digit || std::isdigit(c));
    if (length >= kMinSecretLength && has_digit) return true;
  }
  return false;
}

}  // namespace
}  // namespace lockstep::tracking

namespace lockstep {

tracking::PublicUrl ConfigValue<tracking::PublicUrl>::read(const ConfigNode& node,
                                                           const std::string& path) {
  const auto text = ConfigValue<std::string>::read(node, path);
  const auto where = fmt::format("{}: {}", node.origin, path);
  const auto address = parse_http_address(text, where);
  const bool has_user = !address.user.empty() || !address.password.empty();
  if (has_user || text.find('?') != std::string::npos || tracking::looks_generated(address.path))
    throw config_error(fmt::format(
        "{}: this address contains a secret (a user, a query, or {} letters and digits in "
        "a row), and run files are recorded; pass it in the environment variable of the "
        "sink",
        where, tracking::kMinSecretLength));
  return {text};
}

Json ConfigValue<tracking::PublicUrl>::schema() {
  return {{"type", "string"}, {"pattern", "^https?://"}};
}

}  // namespace lockstep
