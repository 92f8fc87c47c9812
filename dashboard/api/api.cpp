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

using Page = ApiResponse (*)(Dashboard&, const ApiRequest&);
using RunPage = ApiResponse (*)(Dashboard&, const RunRequest&);

const std::map<std::string, Page>& pages() {
  static const std::map<std::string, Page> all = {
      {"server", [](Dashboard& d, const ApiRequest&) { return server_page(d); }},
      {"runs", runs_page},
      {"fields", fields_page},
      {"groups", groups_page},
      {"changes", changes_page},
      {"alerts", alerts_page},
      {"compare", compare_page},
      {"series", series_page},
      {"series.csv", series_csv_page},
      {"band", band_page},
      {"heatmap", heatmap_page},
      {"artifacts", artifacts_page},
  };
  return all;
}

const std::map<std::string, RunPage>& run_pages() {
  static const std::map<std::string, RunPage> all = {
      {"", run_page},
      {"images", images_page},
      {"histograms", histograms_page},
      {"tables", tables_page},
      {"texts", texts_page},
      {"console", console_page},
      {"files", [](Dashboard&, const RunRequest& r) { return files_page(r); }},
  };
  return all;
}

void allow(Dashboard& dashboard, const ApiRequest& request, const std::string& method) {
  if (request.method != method)
    throw ApiError(405, "bad_request", fmt::format("{} is not for this address", request.method));
  if (method != "GET" && !dashboard.actions)
    throw ApiError(403, "forbidden", "this dashboard only shows runs (--read-only)");
}

ApiResponse answer_run(Dashboard& dashboard, const ApiRequest& request,
                     const std::vector<std::string>& parts) {
  const RunRequest about{.request = request,
                         .run = existing_run(dashboard, parts[2]),
                         .rest = {parts.begin() + 3, parts.end()}};
  const auto page = about.rest.empty() ? std::string() : about.rest.front();
  if (page.empty() && request.method == "DELETE") {
    allow(dashboard, request, "DELETE");
    return delete_action(dashboard, about);
  }
  if (page == "tags" || page == "stop") {
    allow(dashboard, request, "POST");
    return page == "tags" ? tags_action(dashboard, about) : stop_action(dashboard, about);
  }
  allow(dashboard, request, "GET");
  if (page == "images" && about.rest.size() > 1) return image_page(dashboard, about);
  const auto it = run_pages().find(page);
  if (it == run_pages().end())
    throw not_found(fmt::format("there is no page '{}'", printable(page)));
  return it->second(dashboard, about);
}

ApiResponse answer_page(Dashboard& dashboard, const ApiRequest& request) {
  const auto parts = path_parts(request.path);
  if (parts.size() < 2 || parts[0] != "api") throw not_found("there is no such page");
  if (parts.size() > 2 && parts[1] == "runs") return answer_run(dashboard, request, parts);
  allow(dashboard, request, "GET");
  if (parts.size() > 2 && parts[1] == "artifacts") return artifact_file_page(dashboard, parts);
  const auto it = pages().find(parts[1]);
  if (it == pages().end() || parts.size() > 2)
    throw not_found(fmt::format("there is no page '{}'", printable(request.path)));
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
  const auto value = number_in<double>(*text);
  if (!value || !std::isfinite(*value))
    throw bad_request(fmt::format("{}: '{}' is no number", name, printable(*text)));
  return value;
}

size_t ApiRequest::count(const std::string& name, size_t otherwise, size_t most,
                         size_t least) const {
  const auto value = number(name);
  if (!value) return otherwise;
  if (*value < static_cast<double>(least) || std::floor(*value) != *value)
    throw bad_request(fmt::format("{}: expected a whole number from {} on", name, least));
  return *value >= static_cast<double>(most) ? most : static_cast<size_t>(*value);
}

ApiResponse ApiError::answer() const {
  Json error = {{"code", code}, {"message", what()}};
  error.update(more);
  auto answer = json_answer({{"error", error}});
  answer.status = status;
  return answer;
}

ApiError not_found(const std::string& what) { return {404, "not_found", what}; }
ApiError bad_request(const std::string& what) { return {400, "bad_request", what}; }

ApiResponse json_answer(const Json& json) { return {.body = catalog::to_text(json)}; }

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

ApiResponse answer_api(Dashboard& dashboard, const ApiRequest& request) {
  try {
    return answer_page(dashboard, request);
  } catch (const ApiError& error) {
    return error.answer();
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::Config) return bad_request(error.what()).answer();
    return ApiError(500, "internal", error.what()).answer();
  } catch (const std::exception& error) {
    return ApiError(500, "internal", fmt::format("an error of the dashboard: {}", error.what()))
        .answer();
  }
}

}  // namespace lockstep::dashboard
