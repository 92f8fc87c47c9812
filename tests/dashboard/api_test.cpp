#include "dashboard/api/api.h"

#include <catch2/catch.hpp>
#include <set>

#include "dashboard/api/report.h"
#include "lockstep/error.h"
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
