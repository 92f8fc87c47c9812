#include "dashboard/api/api.h"

#include <fmt/format.h>

#include <cmath>

#include "catalog/json_text.h"
#include "core/number_text.h"
#include "core/printable.h"
#include "dashboard/api/handlers.h"
#include "lockstep/error.h"

namespace lockstep::dashboard {
namespace {

using Handler = ApiResponse (*)(Dashboard&, const ApiRequest&);
using RunHandler = ApiResponse (*)(Dashboard&, const RunRequest&);

const std::map<std::string, Handler>& handlers() {
  static const std::map<std::string, Handler> all = {
      {"server", get_server},
      {"runs", get_runs},
      {"fields", get_fields},
      {"groups", get_groups},
      {"changes", get_changes},
      {"alerts", get_alerts},
      {"compare", get_comparison},
      {"series", get_series},
      {"series.csv", get_series_csv},
      {"band", get_band},
      {"heatmap", get_heatmap},
      {"artifacts", get_artifacts},
      {"analysis", get_analysis},
      {"importance", get_importance},
      {"sweeps", [](Dashboard& d, const ApiRequest&) { return get_sweeps(d); }},
      {"views", [](Dashboard& d, const ApiRequest&) { return get_views(d); }},
  };
  return all;
}

const std::map<std::string, RunHandler>& run_handlers() {
  static const std::map<std::string, RunHandler> all = {
      {"", get_run},
      {"images", get_images},
      {"clips", get_clips},
      {"histograms", get_histograms},
      {"tables", get_tables},
      {"texts", get_texts},
      {"console", get_console},
      {"code", [](Dashboard&, const RunRequest& r) { return get_code(r); }},
      {"files", [](Dashboard&, const RunRequest& r) { return get_files(r); }},
  };
  return all;
}

void require_method(Dashboard& dashboard, const ApiRequest& request, const std::string& method) {
  if (request.method != method)
    throw ApiError(405, "bad_request", fmt::format("method {} is not allowed", request.method));
  if (method != "GET" && !dashboard.actions)
    throw ApiError(403, "forbidden", "this dashboard is read-only (--read-only)");
  if (method != "GET" && !request.may_write)
    throw ApiError(403, "forbidden",
                   fmt::format("the token {} may only read", printable(request.user)));
}

ApiResponse handle_run_request(Dashboard& dashboard, const ApiRequest& request,
                               const std::vector<std::string>& parts) {
  const RunRequest run_request{.request = request,
                               .run = require_run(dashboard, parts[2]),
                               .rest = {parts.begin() + 3, parts.end()}};
  const auto action = run_request.rest.empty() ? std::string() : run_request.rest.front();
  if (action.empty() && request.method == "DELETE") {
    require_method(dashboard, request, "DELETE");
    return delete_run(dashboard, run_request);
  }
  if (action == "tags" || action == "stop") {
    require_method(dashboard, request, "POST");
    return action == "tags" ? post_tags(dashboard, run_request) : post_stop(dashboard, run_request);
  }
  require_method(dashboard, request, "GET");
  if (action == "images" && run_request.rest.size() > 1) return get_image(dashboard, run_request);
  if (action == "clips" && run_request.rest.size() > 1) return get_clip(dashboard, run_request);
  const auto it = run_handlers().find(action);
  if (it == run_handlers().end())
    throw not_found(fmt::format("no such resource: '{}'", printable(action)));
  return it->second(dashboard, run_request);
}

ApiResponse dispatch(Dashboard& dashboard, const ApiRequest& request) {
  const auto parts = path_parts(request.path);
  if (parts.size() < 2 || parts[0] != "api") throw not_found("no such resource");
  if (parts.size() > 2 && parts[1] == "runs") return handle_run_request(dashboard, request, parts);
  if (parts.size() == 2 && parts[1] == "views" && request.method == "POST") {
    require_method(dashboard, request, "POST");
    return post_views(dashboard, request);
  }
  // These change nothing; as POST, the list of runs can be longer than a request line.
  const bool is_query = parts.size() == 2 && (parts[1] == "analysis" || parts[1] == "importance");
  if (!is_query || request.method != "POST") require_method(dashboard, request, "GET");
  if (parts.size() > 2 && parts[1] == "artifacts") return get_artifact_file(dashboard, parts);
  if (parts.size() == 3 && parts[1] == "sweeps") return get_sweep(dashboard, parts[2]);
  const auto it = handlers().find(parts[1]);
  if (it == handlers().end() || parts.size() > 2)
    throw not_found(fmt::format("no such resource: '{}'", printable(request.path)));
  return it->second(dashboard, request);
}

}  // namespace

std::optional<std::string> ApiRequest::param(const std::string& name) const {
  const auto it = params.find(name);
  return it == params.end() ? std::nullopt : std::optional(it->second);
}

std::vector<std::string> ApiRequest::all(const std::string& name) const {
  std::vector<std::string> values;
  for (auto [it, end] = params.equal_range(name); it != end; ++it) values.push_back(it->second);
  return values;
}

std::optional<double> ApiRequest::number(const std::string& name) const {
  const auto text = param(name);
  if (!text || text->empty()) return std::nullopt;
  const auto value = parse_number<double>(*text);
  if (!value || !std::isfinite(*value))
    throw bad_request(fmt::format("{}: expected a number, got '{}'", name, printable(*text)));
  return value;
}

size_t ApiRequest::count(const std::string& name, size_t default_value, size_t max,
                         size_t min) const {
  const auto value = number(name);
  if (!value) return default_value;
  if (*value < static_cast<double>(min) || std::floor(*value) != *value)
    throw bad_request(fmt::format("{}: expected an integer of at least {}", name, min));
  return *value >= static_cast<double>(max) ? max : static_cast<size_t>(*value);
}

ApiResponse ApiError::response() const {
  Json error = {{"code", code}, {"message", what()}};
  error.update(more);
  auto response = json_response({{"error", error}});
  response.status = status;
  return response;
}

ApiError not_found(const std::string& what) { return {404, "not_found", what}; }
ApiError bad_request(const std::string& what) { return {400, "bad_request", what}; }

ApiResponse json_response(const Json& json) { return {.body = catalog::to_text(json)}; }

std::vector<std::string> path_parts(std::string_view path) {
  std::vector<std::string> parts;
  while (!path.empty()) {
    const auto slash = path.find('/');
    if (slash != 0) parts.emplace_back(path.substr(0, slash));
    if (slash == std::string_view::npos) break;
    path.remove_prefix(slash + 1);
  }
  return parts;
}

ApiResponse handle_api_request(Dashboard& dashboard, const ApiRequest& request) {
  try {
    return dispatch(dashboard, request);
  } catch (const ApiError& error) {
    return error.response();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Config) return bad_request(error.what()).response();
    return ApiError(500, "internal", error.what()).response();
  } catch (const std::exception& error) {
    return ApiError(500, "internal", fmt::format("internal error: {}", error.what())).response();
  }
}

}  // namespace lockstep::dashboard
