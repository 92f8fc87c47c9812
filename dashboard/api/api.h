// Requests and responses of the dashboard's JSON API, independent of HTTP. See
// docs/dashboard_api.md.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "catalog/run_catalog.h"
#include "catalog/run_files.h"
#include "lockstep/config_value.h"

namespace lockstep::dashboard {

struct ApiRequest {
  std::string method = "GET";
  std::string path;  // decoded: "/api/runs/mnist-1"
  std::multimap<std::string, std::string> params;
  std::string body;
  std::string user;        // the name of the token; "local" if none is required
  bool may_write = false;  // whether that token permits changes

  std::optional<std::string> param(const std::string& name) const;
  std::vector<std::string> all(const std::string& name) const;
  // Throws ApiError(400) if the value is not a finite number.
  std::optional<double> number(const std::string& name) const;
  // An integer from `min`, clamped to `max`. Throws ApiError(400).
  size_t count(const std::string& name, size_t default_value, size_t max, size_t min = 0) const;
};

struct ApiResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  catalog::InnerFile file;    // sent instead of the body if open
  std::string download;       // file name of the download; empty: displayed inline
  bool is_sandboxed = false;  // a page of a run: its scripts run without access to the dashboard
};

class ApiError : public std::runtime_error {
 public:
  ApiError(int status_, std::string code_, const std::string& message, Json more_ = Json::object())
      : std::runtime_error(message),
        status(status_),
        code(std::move(code_)),
        more(std::move(more_)) {}

  int status;
  std::string code;
  Json more;  // additional members of the error object

  ApiResponse response() const;
};

ApiError not_found(const std::string& what);
ApiError bad_request(const std::string& what);

// The state that the handlers use.
struct Dashboard {
  catalog::RunCatalog& catalog;
  bool actions = true;  // false: read-only
  bool token = false;   // whether a token is required
  // The JSON Schema of run files, or "" if unavailable. Not called concurrently.
  std::function<std::string()> schema;
  // Limits of one report and of one response with curves; lower in tests.
  size_t max_report_bytes = 512u << 20, max_series_points = 4'000'000;
};

// Handles any request below /api/, except events and login. Errors become error responses.
ApiResponse handle_api_request(Dashboard& dashboard, const ApiRequest& request);

// The components of a decoded path: {"api", "runs", "a b"} for "/api/runs/a b".
std::vector<std::string> path_parts(std::string_view path);

ApiResponse json_response(const Json& json);

}  // namespace lockstep::dashboard
