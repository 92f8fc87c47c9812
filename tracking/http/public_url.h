// An address in a run file. Run files are recorded, copied and shown, so an address that holds a
// secret is refused when it is read: before anything is written, and without showing it.
#pragma once

#include <string>

#include "lockstep/config_value.h"

namespace lockstep::tracking {

struct PublicUrl {
  std::string text;  // http[s]://host[:port][/path]
};

}  // namespace lockstep::tracking

namespace lockstep {

// Refused, as Config: what is no such address, and one with a user, a query, or a part of its path
// that looks made by a machine (16 letters and digits in a row, a digit among them), as addresses
// of chat services have.
template <>
struct ConfigValue<tracking::PublicUrl> {
  static tracking::PublicUrl read(const ConfigNode& node, const std::string& path);
  static Json dump(const tracking::PublicUrl& url) { return url.text; }
  static Json schema();
};

}  // namespace lockstep
