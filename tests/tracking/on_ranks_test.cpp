#include <catch2/catch.hpp>

#include "core/config/config_text.h"
#include "lockstep/config_fields.h"
#include "lockstep/error.h"
#include "tracking/config/tracking_config.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

TrackingConfig read_tracking(const std::string& yaml) {
  TrackingConfig config;
  read_fields(parse_config(yaml, "run.yaml"), "tracking", config);
  return config;
}

std::string error_of_yaml(const std::string& yaml) {
  try {
    read_tracking(yaml);
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

RunInfo process(int rank) {
  return {.id = "job-1",
          .name = "mnist",
          .job_id = "job-1",
          .rank = rank,
          .world_size = 4,
          .node_rank = rank / 2,
          .local_rank = rank % 2};
}

// The ids of the entries of 2 nodes with 2 ranks each.
std::vector<std::string> ids(const TrackingConfig& config) {
  std::vector<std::string> ids;
  for (int rank = 0; rank < 4; ++rank) {
    const auto entry =
        decide(config.ranks, process(rank), {.run_name = config.run_name, .group = config.group});
    if (entry) ids.push_back(entry->id);
  }
  return ids;
}

using Ids = std::vector<std::string>;

}  // namespace

TEST_CASE("ranks: which of two nodes with two ranks log, and under which id") {
  CHECK(ids(read_tracking("{}")) == Ids{"job-1"});
  CHECK(ids(read_tracking("ranks: main")) == Ids{"job-1"});
  CHECK(ids(read_tracking("ranks: node")) == Ids{"job-1-rank-0", "job-1-rank-2"});
  CHECK(ids(read_tracking("ranks: all")) ==
        Ids{"job-1-rank-0", "job-1-rank-1", "job-1-rank-2", "job-1-rank-3"});
  CHECK(ids(read_tracking("ranks: [3, 1]")) == Ids{"job-1-rank-1", "job-1-rank-3"});
}

TEST_CASE("ranks: entries of one job share a group and are named by the template") {
  const auto all =
      read_tracking("{ranks: all, run_name: '{name} {id} {rank} {node} {local_rank}'}");
  const auto entry = *decide(all.ranks, process(3), {.run_name = all.run_name, .group = all.group});
  CHECK(entry.name == "mnist job-1 3 1 1");
  CHECK(entry.group == "job-1");
  CHECK(entry.job_type == "rank");
  CHECK(decide(all.ranks, process(3), {.group = "sweep"})->group == "sweep");
  CHECK(decide(all.ranks, process(3), {})->name == "mnist-rank-3");
  CHECK(decide(read_tracking("ranks: node").ranks, process(2), {})->job_type == "node");
}

TEST_CASE("ranks: a job with one entry keeps its name, and is grouped only if configured") {
  const auto entry = *decide({}, process(0), {});
  CHECK(entry.name == "mnist");
  CHECK_FALSE(entry.group.has_value());
  CHECK_FALSE(entry.job_type.has_value());
  CHECK(decide({}, process(0), {.group = "sweep"})->group == "sweep");
}

TEST_CASE("ranks: exactly one rank shows progress") {
  CHECK(shows_progress(read_tracking("ranks: all").ranks, 0));
  CHECK_FALSE(shows_progress(read_tracking("ranks: all").ranks, 1));
  CHECK(shows_progress(read_tracking("ranks: [3, 1]").ranks, 1));
  CHECK_FALSE(shows_progress(read_tracking("ranks: [3, 1]").ranks, 0));
}

TEST_CASE("ranks: errors about bad input list valid values") {
  const std::string valid = "expected main, node, all, or a list of ranks such as [0, 3], got ";
  CHECK(error_of_yaml("ranks: mian") == "config: run.yaml:1: tracking.ranks: " + valid + "'mian'");
  CHECK(error_of_yaml("ranks: []").find(valid) != std::string::npos);
  CHECK(error_of_yaml("ranks: {a: 1}").find(valid) != std::string::npos);
  CHECK(error_of_yaml("ranks: [0, -1]")
            .find("tracking.ranks[1]: expected a rank (0 or more), got ") != std::string::npos);
  CHECK(error_of_yaml("ranks: [0, 0]")
            .find("tracking.ranks[1]: expected each rank at most once, got ") != std::string::npos);
  CHECK(error_of_yaml("rank: all").find("did you mean 'ranks'?") != std::string::npos);
  CHECK_THROWS_WITH(ids(read_tracking("ranks: [0, 4]")),
                    "tracking.ranks: rank 4 does not exist: the job has 4 (0 to 3)");
  CHECK_THROWS_WITH(ids(read_tracking("run_name: '{nmae}'")),
                    Catch::Contains("unknown placeholder '{nmae}'; did you mean 'name'?"));
  CHECK_THROWS_WITH(ids(read_tracking("run_name: 'a{rank'")),
                    "tracking.run_name: 'a{rank' has a '{' without '}'");
}

TEST_CASE("ranks: selections round-trip") {
  for (const std::string yaml : {"ranks: main", "ranks: node", "ranks: all", "ranks: [0, 2]"}) {
    const auto config = read_tracking(yaml);
    CHECK(read_tracking(to_yaml(ConfigDumper::dump(config))).ranks == config.ranks);
  }
}
