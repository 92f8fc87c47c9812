// Requests to the dashboard and its answers, apart from HTTP: what the server, the report and the
// tests share. docs/dashboard_api.md is the contract.
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

  std::optional<std::string> param(const std::string& name) const;
  std::vector<std::string> all(const std::string& name) const;
  // Throws ApiError(400) for what is no finite number.
  std::optional<double> number(const std::string& name) const;
  // A whole number from 0 (or `least`) to `most`; larger ones become `most`.
  size_t count(const std::string& name, size_t otherwise, size_t most, size_t least = 0) const;
};

struct ApiResponse {
  int status = 200;
  std::string type = "application/json";
  std::string body;
  catalog::InnerFile file;  // instead of the body, where it is open
  std::string download;     // a name to save it under; empty: to be shown
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
  Json more;  // members beside code and message

  ApiResponse answer() const;
};

ApiError not_found(const std::string& what);
ApiError bad_request(const std::string& what);

// What the pages work with.
struct Dashboard {
  catalog::RunCatalog& catalog;
  bool actions = true;  // whether anything may be changed
  bool token = false;   // whether one is needed
  // The JSON Schema of run files, or "" where nobody has it. Called at most once at a time.
  std::function<std::string()> schema;
};

// The answer to any request below /api/, except for events and login. Never throws for what a
// client sends: errors are answers.
ApiResponse answer_api(Dashboard& dashboard, const ApiRequest& request);

// "/api/runs/a%20b" decoded, as its parts: {"api", "runs", "a b"}.
std::vector<std::string> path_parts(std::string_view path);

ApiResponse json_answer(const Json& json);

}  // namespace lockstep::dashboard
