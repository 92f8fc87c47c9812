// The files of the front end, which the build bundles and embeds in the binary.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::dashboard {

struct Asset {
  std::string_view path;              // "/app.js"
  std::string_view type;              // for Content-Type
  std::string_view body, compressed;  // compressed: with gzip
  std::string_view tag;               // ETag, with quotes
};

// "/" is index.html. nullptr if there is no such file.
const Asset* find_asset(std::string_view path);

// The front end as one HTML file, with __LOCKSTEP_DATA__ in place of the report's JSON.
std::string_view report_template();

}  // namespace lockstep::dashboard
