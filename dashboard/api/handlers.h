// The request handlers of the API, described in docs/dashboard_api.md. All throw ApiError.
#pragma once

#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// Limits per request, and on concurrent event streams; reported by GET /api/server.
constexpr size_t kMaxPoints = 20000, kMaxCurves = 512;
constexpr int kMaxStreams = 32;

// A request about one run. `rest`: the path components after its id.
struct RunRequest {
  const ApiRequest& request;
  catalog::RunSnapshot run;
  std::vector<std::string> rest;
};

Json run_row(const catalog::RunSummary& run, double now);
Json alert_json(const std::string& run, const std::string& source, const Alert& alert);
Json progress_json(const catalog::RunCatalog& catalog);
Json changes_json(const catalog::CatalogChanges& changes, const catalog::RunCatalog& catalog);

ApiResponse get_server(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_runs(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_fields(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_groups(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_changes(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_alerts(Dashboard& dashboard, const ApiRequest& request);

ApiResponse get_run(Dashboard& dashboard, const RunRequest& request);
// The response of /api/runs/ID: its small members, and with them the complete JSON text.
Json run_head(Dashboard& dashboard, const catalog::RunSummary& run);
std::string run_detail(const Json& head, const catalog::RunSummary& run,
                       const catalog::NameTable& names);
ApiResponse get_comparison(Dashboard& dashboard, const ApiRequest& request);
Json comparison(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs);

ApiResponse get_series(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_series_csv(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_band(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_heatmap(Dashboard& dashboard, const ApiRequest& request);

// Their parameters may also be members of a JSON body (POST).
ApiResponse get_analysis(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_importance(Dashboard& dashboard, const ApiRequest& request);

// The names of sweeps are those of their directories.
ApiResponse get_sweeps(Dashboard& dashboard);
ApiResponse get_sweep(Dashboard& dashboard, const std::string& name);

// Saved views of the page.
ApiResponse get_views(Dashboard& dashboard);
ApiResponse post_views(Dashboard& dashboard, const ApiRequest& request);

ApiResponse get_images(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_image(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_histograms(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_tables(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_texts(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_console(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_files(const RunRequest& request);
ApiResponse get_clips(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_clip(Dashboard& dashboard, const RunRequest& request);
ApiResponse get_code(const RunRequest& request);

ApiResponse get_artifacts(Dashboard& dashboard, const ApiRequest& request);
ApiResponse get_artifact_file(Dashboard& dashboard, const std::vector<std::string>& parts);

ApiResponse post_tags(Dashboard& dashboard, const RunRequest& request);
ApiResponse post_stop(Dashboard& dashboard, const RunRequest& request);
ApiResponse delete_run(Dashboard& dashboard, const RunRequest& request);

// The runs selected by the parameters `run` or `filter`; with both, those of the listed runs that match.
// Throws ApiError(404) for an unknown run.
std::vector<catalog::RunSnapshot> requested_runs(Dashboard& dashboard, const ApiRequest& request);
// Throws ApiError(404).
catalog::RunSnapshot require_run(Dashboard& dashboard, const std::string& id);
// The runs that match `filter`, newest first. Throws ApiError(400, bad_filter).
std::vector<catalog::RunSnapshot> filtered_runs(Dashboard& dashboard, const std::string& filter);
// Throws ApiError(404).
std::shared_ptr<catalog::RunLogs> open_logs(Dashboard& dashboard, const std::string& id);

}  // namespace lockstep::dashboard
