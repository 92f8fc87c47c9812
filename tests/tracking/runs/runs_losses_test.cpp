#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/tracking/runs/lab_with_runs.h"
#include "tracking/log/event_log_writer.h"
#include "tracking/runs/rank_losses.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("runs show: lost ranks are listed in order, and a corrupt list is empty") {
  LabWithRuns lab;
  lab.add("mnist-1");
  const auto dir = lab.path() / "mnist-1";
  CHECK(lab.json({"show", "mnist-1"})["rank_losses"].empty());
  const RankLoss first{.step = 7,
                       .before = 4,
                       .after = 4,
                       .ranks = {{1, "killed by SIGKILL"}, {3, "killed by SIGSEGV"}},
                       .spares = {4, 5}};
  CHECK_FALSE(is_recorded(dir, first));
  CHECK_FALSE(is_logged(dir, first));
  EventLogWriter(event_log_path(dir, 0))
      .text({.level = TextLevel::Warning, .line = describe(first)});
  CHECK(is_logged(dir, first));
  for (int i = 0; i < 2; ++i) record_rank_loss(dir, first);
  CHECK(is_recorded(dir, first));
  record_rank_loss(
      dir, {.step = 9, .before = 4, .after = 1, .ranks = {{0, "killed \x1b"}}, .spares = {}});
  record_rank_loss(
      dir, {.step = 12, .before = 2, .after = 1, .ranks = {{1, "SIGTERM", true}}, .spares = {}});
  record_rank_loss(
      dir, {.step = 15, .before = 1, .after = 2, .ranks = {}, .spares = {0}, .spare_nodes = {1}});
  auto of_next_attempt = first;
  of_next_attempt.time = first.time + 60;
  CHECK_FALSE(is_recorded(dir, of_next_attempt));
  CHECK_FALSE(is_logged(dir, of_next_attempt));
  const auto losses = lab.json({"show", "mnist-1"})["rank_losses"];
  REQUIRE(losses.size() == 4);
  CHECK(losses[3]["lost"].empty());
  CHECK(losses[2]["lost"][0] == Json{{"rank", 1}, {"how", "SIGTERM"}, {"has_left", true}});
  CHECK(losses[0]["lost"][1] == Json{{"rank", 3}, {"how", "killed by SIGSEGV"}});
  const auto text = lab({"show", "mnist-1"});
  CHECK(
      text.find("\nlost ranks  rank 1 (of 4) was lost, killed by SIGKILL; rank 3 (of 4) was lost, "
                "killed by SIGSEGV; continued after step 7 with 4 ranks, with spares 4, 5\n") !=
      std::string::npos);
  CHECK(text.find("killed \\x1b; continued after step 9 with 1 rank\n") != std::string::npos);
  CHECK(text.find("\nleft        rank 1 (of 2) left after SIGTERM; continued after step 12 with 1 "
                  "rank\n") != std::string::npos);
  CHECK(text.find("\njoined      1 rank joined; continued after step 15 with 2 ranks, with spare 0 "
                  "of node 1\n") != std::string::npos);
  for (const auto* wrong : {"", "{}", R"([{"step": 1}])", R"([{"step": "a", "lost": []}])"}) {
    write_file_durably(dir / "rank_losses.json", wrong);
    CHECK(read_rank_losses(dir).empty());
  }
}
