#include "catalog/run_catalog.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/runs/end_facts.h"

using namespace lockstep;
using namespace lockstep::catalog;

TEST_CASE("catalog: a change is never overwritten by an older read") {
  const TemporaryDirectory directory;
  const auto run = directory / "run";
  std::filesystem::create_directories(run / "events");
  tracking::EventLogWriter log(run / "events" / "rank-00000.lsev");
  log.identity(tracking::sample_info("run"));
  ColumnSpool spool({directory.path()});
  RunCatalog catalog(directory.path(), spool, CatalogReading::OnRequest);
  REQUIRE(catalog.find("run"));
  // As the catalog's thread does with a running run.
  std::atomic<bool> is_over = false;
  std::vector<std::jthread> readers;
  for (int i = 0; i < 3; ++i)
    readers.emplace_back([&] {
      while (!is_over) catalog.refresh("run");
    });
  int num_stale = 0;
  for (int i = 0; i < 400; ++i) {
    const auto note = std::to_string(i);
    const auto json = R"({"tags": [], "note": ")" + note + R"("})";
    directory.write("tags", {json.begin(), json.end()});
    std::filesystem::rename(directory / "tags", run / "tags.json");
    catalog.refresh("run");
    for (int look = 0; look < 3; ++look) {
      if (catalog.find("run")->tags.note != note) ++num_stale;
      std::this_thread::yield();
    }
  }
  is_over = true;
  CHECK(num_stale == 0);
}

TEST_CASE("catalog: the outcome does not depend on the order of the recorded facts") {
  const TemporaryDirectory directory;
  const auto run = directory / "run";
  std::filesystem::create_directories(run / "events");
  {
    tracking::EventLogWriter log(run / "events" / "rank-00000.lsev");
    log.identity(tracking::sample_info("run"));
    log.end({.state = RunState::Failed, .exit_code = 75, .rank = 0});
  }
  ColumnSpool spool({directory.path()});
  RunCatalog catalog(directory.path(), spool, CatalogReading::OnRequest);
  const auto is_reported = [&](const tracking::EndFact& fact, const RunEnd& expected) {
    record_end(run, fact);
    catalog.refresh("run");
    const auto shown = catalog.find("run");
    CHECK(shown->end == expected);
    CHECK(shown->state == expected.state);
    CHECK(shown->sources.at(0).state == expected.state);
  };
  const tracking::EndFact lost{.end = {RunState::Failed, 75, {}, 0, "lost"},
                               .is_consequence = true};
  const tracking::EndFact silent{.by = tracking::Witness::Agent,
                                 .end = {RunState::Killed, 75, 9, 1, "silent"}};
  const tracking::EndFact seen{.by = tracking::Witness::Launcher,
                               .end = {RunState::Killed, 75, 9, 1, "seen"}};
  is_reported(lost, lost.end);
  is_reported(silent, silent.end);
  is_reported(seen, seen.end);
  is_reported(silent, seen.end);
}
