// A URL in a run file. Run files are recorded, copied and shown, so a URL that contains a secret is
// rejected when it is read: before anything is written, and without printing it.
#pragma once

#include <string>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

struct PublicUrl {
  std::string text;  // http[s]://host[:port][/path]
};

}  // namespace lockstep::tracking

namespace lockstep {

// Throws Config for an invalid URL, and for one with a user, a query, or a part of the path that
// looks generated (16 letters and digits in a row, including a digit), as in webhook URLs of chat
// services.
template <>
struct ConfigValue<tracking::PublicUrl> {
  static tracking::PublicUrl read(const ConfigNode& node, const std::string& path);
  static Json dump(const tracking::PublicUrl& url) { return url.text; }
  static Json schema();
};

}  // namespace lockstep
