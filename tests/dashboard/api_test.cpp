#include "dashboard/api/api.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <set>

#include "dashboard/api/report.h"
#include "lockstep/error.h"
#include "sweep/sweep_json.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"

using namespace lockstep;
using namespace lockstep::dashboard;

namespace {

using Params = std::multimap<std::string, std::string>;

// A dashboard with the run "job": of each of two ranks, 100 losses and 3 images of the same time.
struct SmallDashboard {
  SmallDashboard() {
    std::filesystem::create_directories(directory / "job/events");
    for (int rank = 0; rank < 2; ++rank) {
      tracking::EventLogWriter log(directory /
                                   ("job/events/rank-0000" + std::to_string(rank) + ".lsev"));
      log.identity(tracking::sample_info("job", rank, 2));
      for (int64_t step = 0; step < 100; ++step) tracking::log_loss(log, step, 1);
      Moment at;
      at.name = "digits";
      at.time = 1.7e9;
      for (int i = 0; i < 3; ++i)
        log.image({.at = at, .width = 1, .height = 2, .caption = "", .png = "png"});
      log.end({.state = RunState::Finished});
    }
  }

  ApiResponse get(const std::string& path, const Params& params) {
    return handle_api_request(dashboard, {.path = path, .params = params});
  }

  TemporaryDirectory directory;
  catalog::ColumnSpool spool{{directory.path()}};
  catalog::RunCatalog runs{directory.path(), spool, catalog::CatalogReading::OnRequest};
  Dashboard dashboard{.catalog = runs, .actions = false, .schema = {}};
};

std::string error_code(const ApiResponse& response) {
  return Json::parse(response.body)["error"]["code"].get<std::string>();
}

}  // namespace

TEST_CASE("api: pages of images have all images, also those of the same time") {
  SmallDashboard small;
  std::set<std::pair<std::string, uint64_t>> found;
  for (int offset = 0; offset < 6; offset += 2) {
    const auto page = Json::parse(
        small
            .get("/api/runs/job/images",
                 {{"name", "digits"}, {"limit", "2"}, {"offset", std::to_string(offset)}})
            .body);
    CHECK(page["more"].get<bool>() == (offset < 4));
    for (const auto& item : page["items"])
      found.emplace(item["source"].get<std::string>(), item["at"].get<uint64_t>());
  }
  CHECK(found.size() == 6);
  CHECK(Json::parse(small.get("/api/runs/job/images", {{"offset", "7"}}).body)["items"].empty());
}

TEST_CASE("api: a report that would be too large is refused") {
  SmallDashboard small;
  const ApiRequest request{.path = "/api/report.html", .params = {{"run", "job"}}};
  CHECK(get_report(small.dashboard, request).status == 200);
  small.dashboard.max_report_bytes = 1000;
  const auto refused = get_report(small.dashboard, request);
  CHECK(refused.status == 413);
  CHECK(error_code(refused) == "too_large");
  const std::vector<catalog::RunSnapshot> runs = {small.runs.find("job")};
  try {
    report_html(small.dashboard, runs);
    FAIL("no error");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::Config);
    CHECK(std::string(error.what()).ends_with("select fewer runs"));
  }
}

TEST_CASE("api: curves with too many points are refused") {
  SmallDashboard small;
  const Params params = {{"run", "job"}, {"metric", "train/loss"}, {"source", "ranks"}};
  small.dashboard.max_series_points = 200;
  CHECK(small.get("/api/series", params).status == 200);
  small.dashboard.max_series_points = 199;
  const auto refused = small.get("/api/series", params);
  CHECK(refused.status == 413);
  CHECK(error_code(refused) == "too_large");
}

TEST_CASE("api: sweeps, the newest first, with those whose files cannot be read") {
  SmallDashboard small;
  const auto sweeps = sweep::sweeps_path(small.directory.path());
  const auto add = [&](const std::string& name, double created) {
    sweep::SweepInfo info{.id = name + "-1", .created = created, .ranks = 2};
    info.file.name = name;
    info.file.space =
        ConfigValue<sweep::Space>::read(parse_config("x: {uniform: [0, 1]}", "s.yaml"), "space");
    info.file.objective.all = {{.metric = "eval/loss"}};
    info.file.budget.trials = 2;
    return sweep::SweepDirectory::open_or_create(sweeps / name, info, Json{{"a", 1}});
  };
  add("old", 5);
  const auto made = add("new-one", 6);
  for (const auto value : {0.5, 0.25}) {
    auto trial = *made.add(sweep::TrialSource::Search);
    trial.state = sweep::TrialState::Finished;
    trial.values = {value};
    made.write(trial);
  }
  std::filesystem::create_directories(sweeps / "bad");
  std::ofstream(sweeps / "bad/sweep.json") << "{";
  const auto rows = Json::parse(small.get("/api/sweeps", {}).body)["sweeps"];
  REQUIRE(rows.size() == 3);
  CHECK(rows[0]["name"] == "new-one");
  CHECK(rows[0]["state"] == "done");
  CHECK(rows[0]["counts"] == Json{{"open", 0}, {"finished", 2}, {"pruned", 0}, {"failed", 0}});
  CHECK(rows[0]["best"][0]["number"] == 1);
  CHECK_FALSE(rows[0].contains("trials"));
  CHECK(rows[1]["name"] == "old");
  CHECK(rows[1]["state"] == "stopped");
  CHECK(rows[2]["name"] == "bad");
  CHECK(rows[2]["problem"].get<std::string>().find("sweep.json") != std::string::npos);
  const auto one = Json::parse(small.get("/api/sweeps/new-one", {}).body);
  CHECK(one == sweep::sweep_json(made));
  for (const auto* missing : {"/api/sweeps/other", "/api/sweeps/..", "/api/sweeps/old/trials"})
    CHECK(small.get(missing, {}).status == 404);
  CHECK(small.get("/api/sweeps/bad", {}).status == 400);
}
