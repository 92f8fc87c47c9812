// Handlers of saved views: names for states of the page, in RUNS/.dashboard/views.json.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "catalog/json_text.h"
#include "core/bounded_json.h"
#include "core/printable.h"
#include "core/system/durable_file.h"
#include "core/system/file_lock.h"
#include "dashboard/api/audit.h"
#include "dashboard/api/handlers.h"
#include "tracking/log/unix_time.h"

namespace lockstep::dashboard {
namespace {

constexpr size_t kMaxViews = 500, kMaxViewName = 100, kMaxViewBytes = 32 << 10;
constexpr size_t kMaxViewsBytes = 32 << 20;
constexpr std::chrono::seconds kViewsLockTimeout{5};

std::filesystem::path views_path(const Dashboard& dashboard) {
  return dashboard.catalog.directory() / ".dashboard" / "views.json";
}

// A list of {"name", "view", "saved"}; empty without a file. Throws ApiError if it is corrupt: it
// must not be replaced.
Json read_views(const std::filesystem::path& path) {
  if (!std::filesystem::exists(path)) return Json::array();
  auto views = parse_json(read_file(path, kMaxViewsBytes));
  const auto is_view = [](const Json& view) {
    return view.is_object() && view.contains("name") && view["name"].is_string() &&
           view.contains("view") && view["view"].is_string();
  };
  if (!views.is_array() || !std::ranges::all_of(views, is_view))
    throw ApiError(500, "internal", fmt::format("{} is corrupt", path.string()));
  return views;
}

std::string required_text(const Json& body, const char* name, size_t max_bytes) {
  if (!body.contains(name) || !body[name].is_string() || body[name].get<std::string>().empty())
    throw bad_request(fmt::format("{}: expected a string that is not empty", name));
  auto text = body[name].get<std::string>();
  if (text.size() > max_bytes)
    throw bad_request(fmt::format("{}: longer than {} bytes", name, max_bytes));
  return text;
}

}  // namespace

ApiResponse get_views(Dashboard& dashboard) {
  return json_response({{"views", read_views(views_path(dashboard))}});
}

ApiResponse post_views(Dashboard& dashboard, const ApiRequest& request) {
  const auto body = parse_json(request.body);
  if (!body.is_object()) throw bad_request("the body is not a JSON object");
  const auto name = required_text(body, "name", kMaxViewName);
  const bool removes = body.contains("view") && body["view"].is_null();
  const auto view = removes ? std::string() : required_text(body, "view", kMaxViewBytes);
  if (!removes && !view.starts_with("#/"))
    throw bad_request("view: expected the part of the URL from \"#/\"");
  const auto path = views_path(dashboard);
  make_directories(path.parent_path());
  const FileLock lock(path.parent_path() / ".views-lock", FileLock::Kind::Exclusive,
                      kViewsLockTimeout);
  const auto views = read_views(path);
  auto next = Json::array();
  for (const auto& known : views)
    if (known["name"] != name) next.push_back(known);
  if (removes && next.size() == views.size())
    throw not_found(fmt::format("view '{}' not found", printable(name)));
  if (!removes) next.push_back({{"name", name}, {"view", view}, {"saved", tracking::unix_now()}});
  if (next.size() > kMaxViews) throw bad_request(fmt::format("more than {} views", kMaxViews));
  write_file_durably(path, catalog::to_text(next, 2));
  record_change(dashboard.catalog.directory(), request, "views", "");
  return json_response({{"views", next}});
}

}  // namespace lockstep::dashboard
