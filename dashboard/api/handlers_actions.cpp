// Handlers that change runs.
#include <fmt/format.h>

#include "catalog/run_list.h"
#include "core/bounded_json.h"
#include "core/printable.h"
#include "dashboard/api/audit.h"
#include "dashboard/api/handlers.h"
#include "tracking/log/unix_time.h"
#include "tracking/runs/run_directory.h"
#include "tracking/runs/run_trash.h"
#include "tracking/runs/stop_request.h"

namespace lockstep::dashboard {
namespace {

Json json_body(const RunRequest& request) {
  auto json = request.request.body.empty() ? Json::object() : parse_json(request.request.body);
  if (!json.is_object()) throw bad_request("the body is not a JSON object");
  return json;
}

std::optional<std::string> text_member(const Json& body, const char* name) {
  if (!body.contains(name) || body[name].is_null()) return std::nullopt;
  if (!body[name].is_string()) throw bad_request(fmt::format("{}: expected a string", name));
  return body[name].get<std::string>();
}

void add_changes(const Json& body, const char* name, char sign, std::vector<std::string>& changes) {
  if (!body.contains(name)) return;
  if (!body[name].is_array())
    throw bad_request(fmt::format("{}: expected a list of strings", name));
  for (const auto& tag : body[name]) {
    if (!tag.is_string()) throw bad_request(fmt::format("{}: expected a list of strings", name));
    changes.push_back(sign + tag.get<std::string>());
  }
}

void record(Dashboard& dashboard, const RunRequest& request, const char* action) {
  record_change(dashboard.catalog.directory(), request.request, action, request.run->id);
}

// Rereads the run, so that the response has the state on disk.
ApiResponse current_row(Dashboard& dashboard, const std::string& id) {
  dashboard.catalog.refresh(id);
  return json_response(run_row(*require_run(dashboard, id), tracking::unix_now()));
}

}  // namespace

ApiResponse post_tags(Dashboard& dashboard, const RunRequest& request) {
  const auto body = json_body(request);
  std::vector<std::string> changes;
  add_changes(body, "add", '+', changes);
  add_changes(body, "remove", '-', changes);
  tracking::change_run_tags(request.run->dir, changes, text_member(body, "note"));
  record(dashboard, request, "tags");
  return current_row(dashboard, request.run->id);
}

ApiResponse post_stop(Dashboard& dashboard, const RunRequest& request) {
  const auto reason = text_member(json_body(request), "reason");
  dashboard.catalog.refresh(request.run->id);
  const auto run = require_run(dashboard, request.run->id);
  if (run->state != RunState::Running)
    throw ApiError(409, "conflict", fmt::format("the run is over: {}", state_name(run->state)));
  if (tracking::is_received_run(run->dir))
    throw ApiError(409, "conflict", "the run trains on another machine: stop it there");
  tracking::request_stop(run->dir, reason.value_or("requested in the dashboard"));
  record(dashboard, request, "stop");
  return current_row(dashboard, request.run->id);
}

ApiResponse delete_run(Dashboard& dashboard, const RunRequest& request) {
  const auto& id = request.run->id;
  if (text_member(json_body(request), "confirm") != id)
    throw bad_request("confirm: expected the id of the run");
  const auto run = read_run(request.run->dir, dashboard.catalog.names());
  if (entries_of(run, dashboard.catalog.names()).empty())
    throw not_found(fmt::format("run '{}' not found", printable(id)));
  if (const auto reason = why_in_use(*run); !reason.empty())
    throw ApiError(409, "conflict", fmt::format("the run is in use: {}", reason));
  const auto note = [&] {
    record(dashboard, request, "delete");
    dashboard.catalog.refresh(id);
  };
  try {
    tracking::remove_run(dashboard.catalog.directory(), request.run->dir);
  } catch (const Error&) {
    std::error_code error;
    if (!std::filesystem::exists(request.run->dir, error)) note();  // `runs gc` removes the rest
    throw;
  }
  note();
  return json_response({{"deleted", id}});
}

}  // namespace lockstep::dashboard
