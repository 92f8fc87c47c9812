// The pages of the API, one function each; docs/dashboard_api.md says what they answer. All throw
// ApiError.
#pragma once

#include <string>

#include "dashboard/api/api.h"

namespace lockstep::dashboard {

// What one request may ask for, and how many may listen; GET /api/server tells them.
constexpr size_t kMostPoints = 20000, kMostCurves = 512;
constexpr int kMostStreams = 32;

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

ApiAnswer server_page(Dashboard& dashboard);
ApiAnswer runs_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer fields_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer groups_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer changes_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer alerts_page(Dashboard& dashboard, const ApiRequest& request);

ApiAnswer run_page(Dashboard& dashboard, const RunRequest& request);
// What /api/runs/ID answers: its small members, and with them the whole as text.
Json run_head(Dashboard& dashboard, const catalog::RunSummary& run);
std::string run_detail(const Json& head, const catalog::RunSummary& run,
                       const catalog::NameTable& names);
ApiAnswer compare_page(Dashboard& dashboard, const ApiRequest& request);
Json comparison(Dashboard& dashboard, const std::vector<catalog::RunSnapshot>& runs);

ApiAnswer series_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer series_csv_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer band_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer heatmap_page(Dashboard& dashboard, const ApiRequest& request);

ApiAnswer images_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer image_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer histograms_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer tables_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer texts_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer console_page(Dashboard& dashboard, const RunRequest& request);
ApiAnswer files_page(const RunRequest& request);

ApiAnswer artifacts_page(Dashboard& dashboard, const ApiRequest& request);
ApiAnswer artifact_file_page(Dashboard& dashboard, const std::vector<std::string>& parts);

ApiAnswer tags_action(Dashboard& dashboard, const RunRequest& request);
ApiAnswer stop_action(Dashboard& dashboard, const RunRequest& request);
ApiAnswer delete_action(Dashboard& dashboard, const RunRequest& request);

// Runs that the parameters `run` or `filter` name. Throws ApiError(404) for an unknown run.
std::vector<catalog::RunSnapshot> runs_of(Dashboard& dashboard, const ApiRequest& request);
catalog::RunSnapshot existing_run(Dashboard& dashboard, const std::string& id);
// Those that `filter` takes, newest first. Throws ApiError(400, bad_filter).
std::vector<catalog::RunSnapshot> filtered_runs(Dashboard& dashboard, const std::string& filter);
std::shared_ptr<catalog::RunLogs> opened(Dashboard& dashboard, const std::string& id);

}  // namespace lockstep::dashboard
