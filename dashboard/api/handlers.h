// The pages of the API, one function each; docs/dashboard_api.md says what they answer. All throw
// ApiError.
#pragma once

#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// What one request may ask for, and how many may listen; GET /api/server tells them.
constexpr size_t kMaxPoints = 20000, kMaxCurves = 512;
constexpr int kMaxStreams = 32;

// A page about one run: `rest` are the parts of the path behind its id.
struct RunRequest {
  const ApiRequest& request;
  catalog::RunSnapshot run;
  std::vector<std::string> rest;
};

Json run_row(const catalog::RunSummary& run, double now);
Json alert_json(const std::string& run, const std::string& source, const Alert& alert);
Json progress_json(const catalog::RunCatalog& catalog);
Json changes_json(const catalog::CatalogChanges& changes, const catalog::RunCatalog& catalog);

ApiResponse server_page(Dashboard& dashboard);
ApiResponse runs_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse fields_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse groups_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse changes_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse alerts_page(Dashboard& dashboard, const ApiRequest& request);

ApiResponse run_page(Dashboard& dashboard, const RunRequest& request);
// What /api/runs/ID answers: its small members, and with them the whole as text.
Json run_head(Dashboard& dashboard, const catalog::RunSummary& run);
std::string run_detail(const Json& head, const catalog::RunSummary& run,
                       const catalog::NameTable& names);
ApiResponse compare_page(Dashboard& dashboard, const ApiRequest& request);
Json comparison(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs);

ApiResponse series_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse series_csv_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse band_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse heatmap_page(Dashboard& dashboard, const ApiRequest& request);

ApiResponse images_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse image_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse histograms_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse tables_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse texts_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse console_page(Dashboard& dashboard, const RunRequest& request);
ApiResponse files_page(const RunRequest& request);

ApiResponse artifacts_page(Dashboard& dashboard, const ApiRequest& request);
ApiResponse artifact_file_page(Dashboard& dashboard, const std::vector<std::string>& parts);

ApiResponse tags_action(Dashboard& dashboard, const RunRequest& request);
ApiResponse stop_action(Dashboard& dashboard, const RunRequest& request);
ApiResponse delete_action(Dashboard& dashboard, const RunRequest& request);

// Runs that the parameters `run` or `filter` name. Throws ApiError(404) for an unknown run.
std::vector<catalog::RunSnapshot> runs_of(Dashboard& dashboard, const ApiRequest& request);
catalog::RunSnapshot existing_run(Dashboard& dashboard, const std::string& id);
// Those that `filter` takes, newest first. Throws ApiError(400, bad_filter).
std::vector<catalog::RunSnapshot> filtered_runs(Dashboard& dashboard, const std::string& filter);
std::shared_ptr<catalog::RunLogs> opened(Dashboard& dashboard, const std::string& id);

}  // namespace lockstep::dashboard
