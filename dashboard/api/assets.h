// The files of the page, which the build bundles and puts into the program.
#pragma once

#include <string>
#include <string_view>

namespace lockstep::dashboard {

struct Asset {
  std::string_view path;              // "/app.js"
  std::string_view type;              // for Content-Type
  std::string_view body, compressed;  // compressed: by gzip
  std::string_view tag;               // changes with the body, in quotes
};

// "/" is the page. nullptr where there is none.
const Asset* find_asset(std::string_view path);

// The page as one file, with __LOCKSTEP_DATA__ where a report's JSON belongs.
std::string_view report_template();

}  // namespace lockstep::dashboard
