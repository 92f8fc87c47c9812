#include "tracking/runs/end_facts.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <optional>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

// Facts of every kind, in order of authority. Their reasons are distinct.
const EndFacts kByAuthority = {
    {.by = Witness::Launcher, .end = {RunState::Killed, 75, 9, 1, "launcher: rank 1 was killed"}},
    {.by = Witness::Trainer,
     .number = 2,
     .end = {RunState::Failed, 70, {}, 2, "rank 2 failed first"},
     .time = 4},
    {.by = Witness::Trainer, .end = {RunState::Preempted, 143, 15, {}, "preempted"}, .time = 5},
    {.by = Witness::Agent,
     .number = 1,
     .end = {RunState::Killed, 75, 9, 3, "rank 3 is gone"},
     .time = 6},
    {.by = Witness::Agent, .end = {RunState::Killed, 75, 9, 0, "rank 0 is gone"}, .time = 7},
    {.by = Witness::Trainer, .end = {RunState::Finished, 0, {}, {}, "stopped early"}, .time = 1},
    {.by = Witness::Trainer,
     .number = 1,
     .end = {RunState::Failed, 75, {}, 1, "rank 1 lost its peers"},
     .is_consequence = true,
     .time = 1},
    {.by = Witness::Launcher,
     .end = {RunState::Killed, 143, 15, {}, "stopped by SIGTERM"},
     .is_consequence = true},
};

const std::vector<std::optional<RunEnd>> kLogged = {
    std::nullopt,
    RunEnd{RunState::Finished},
    RunEnd{RunState::Failed, 78, {}, 0, "of the log"},
    RunEnd{RunState::Preempted, 143, 15, {}, "of the log"},
};

// How a job with these facts ended, and the content of end.json.
void check_end(const EndFacts& facts, const RunEnd& expected) {
  const TemporaryDirectory dir;
  for (const auto& fact : facts) record_end(dir.path(), fact);
  CHECK(read_run_end(dir.path()) == expected);
  CHECK(run_end_from_json(Json::parse(read_file(dir / "end.json"))) == expected);
}

}  // namespace

TEST_CASE("end facts: the record with the highest authority decides") {
  for (unsigned chosen = 0; chosen < 1u << kByAuthority.size(); ++chosen) {
    EndFacts facts;
    for (size_t i = 0; i < kByAuthority.size(); ++i)
      if (chosen >> i & 1) facts.push_back(kByAuthority[i]);
    std::vector<EndFacts> orders = {facts, {facts.rbegin(), facts.rend()}};
    std::ranges::rotate(facts, facts.begin() + static_cast<long>(facts.size() / 2));
    orders.push_back(facts);
    for (const auto& recorded : orders)
      for (const auto& logged : kLogged)
        for (const bool has_writer : {false, true}) {
          const auto end = resolve(recorded, logged, has_writer);
          const auto first = std::ranges::find_if(kByAuthority, [&](const EndFact& fact) {
            return std::ranges::count(recorded, fact) > 0;
          });
          const bool has_fact = first != kByAuthority.end();
          if (has_fact && (first->end.state != RunState::Finished || !logged))
            REQUIRE(end == first->end);
          else if (logged)
            REQUIRE(end == *logged);
          else
            REQUIRE(end == RunEnd{has_writer ? RunState::Running : RunState::Lost});
          REQUIRE((decisive_fact(recorded) ? decisive_fact(recorded)->end.reason : "none") ==
                  (has_fact ? first->end.reason : "none"));
        }
  }
}

TEST_CASE("end facts: among independent failures the earliest decides, then the lowest rank") {
  const auto failed = [](int rank, double time) {
    return EndFact{.number = rank, .end = {RunState::Failed, 75, {}, rank}, .time = time};
  };
  CHECK(resolve({failed(0, 3), failed(1, 2), failed(2, 2)}).rank == 1);
}

TEST_CASE("end facts: a killed rank is the same with a launcher and without") {
  const EndFact launcher{.by = Witness::Launcher, .end = {RunState::Killed, 75, 9, 1, "killed"}};
  const EndFact agent{.by = Witness::Agent, .end = {RunState::Killed, 75, 9, 1, "killed"}};
  const EndFact peer{.end = {RunState::Failed, 75, {}, 0, "lost a peer"}, .is_consequence = true};
  for (const auto& recorded : {EndFacts{launcher}, EndFacts{agent}, EndFacts{peer, agent},
                               EndFacts{peer, launcher}, EndFacts{agent, peer, launcher}})
    check_end(recorded, {RunState::Killed, 75, 9, 1, "killed"});
}

TEST_CASE("end facts: a witness replaces its earlier fact") {
  EndFact fact{.end = {RunState::Preempted, 143, 15, {}, "preempted"}, .time = 1};
  EndFact again = fact;
  again.end = {RunState::Failed, 70, {}, 0, "no"};
  check_end({fact, again}, again.end);
  check_end({again, fact}, fact.end);
}

TEST_CASE("end facts: facts round-trip, and a launcher's fact is marked as confirmed") {
  const TemporaryDirectory dir;
  for (const auto& fact : kByAuthority) {
    record_end(dir.path(), fact);
    CHECK(end_fact_from_json(to_json(fact)) == fact);
    CHECK(std::ranges::count(read_end_facts(dir.path()), fact) == 1);
    CHECK(Json::parse(read_file(dir / "end.json"))["confirmed"] == true);
    clear_end(dir.path());
    CHECK(read_end_facts(dir.path()).empty());
    record_end(dir.path(), kByAuthority[3]);
    CHECK_FALSE(Json::parse(read_file(dir / "end.json")).contains("confirmed"));
    clear_end(dir.path());
    CHECK(std::filesystem::is_empty(dir.path()));
    record_end(dir.path(), kByAuthority[0]);
  }
}

TEST_CASE("end facts: an end.json of an earlier version counts until there is a fact") {
  const TemporaryDirectory dir;
  write_file_durably(dir / "end.json",
                     R"({"state": "killed", "exit": 137, "reason": "old", "confirmed": true})");
  const RunEnd old{RunState::Killed, 137, {}, {}, "old"};
  CHECK(read_run_end(dir.path()) == old);
  CHECK(resolve(read_end_facts(dir.path()), RunEnd{RunState::Finished}, true) == old);
  write_file_durably(dir / "end.json", R"({"state": "finished", "exit": 0})");
  CHECK(resolve(read_end_facts(dir.path()), RunEnd{RunState::Failed, 70}) ==
        RunEnd{RunState::Finished});
  record_end(dir.path(), kByAuthority[4]);
  CHECK(read_run_end(dir.path()) == kByAuthority[4].end);
}

TEST_CASE("end facts: files left by a kill are skipped") {
  const TemporaryDirectory dir;
  record_end(dir.path(), kByAuthority[1]);
  // Between writing the fact and end.json.
  std::filesystem::remove(dir / "end.json");
  CHECK(read_run_end(dir.path()) == kByAuthority[1].end);
  // In the middle of writing.
  write_file_durably(dir / "ends/launcher-00000.json.tmp-17", "{\"state\": \"fin");
  write_file_durably(dir / "ends/agent-00000.json", "no fact");
  write_file_durably(dir / "ends/notes.json", R"({"state": "lost", "by": "another program"})");
  CHECK(read_run_end(dir.path()) == kByAuthority[1].end);
  // During clear_end(): end.json is removed last.
  record_end(dir.path(), kByAuthority[1]);
  std::filesystem::rename(dir / "ends", dir / "ends.tmp-17");
  CHECK(read_run_end(dir.path()) == kByAuthority[1].end);
  clear_end(dir.path());
  CHECK_FALSE(read_run_end(dir.path()));
}

TEST_CASE("end facts: concurrent witnesses leave an end.json that reflects all facts") {
  for (int round = 0; round < 20; ++round) {
    const TemporaryDirectory dir;
    std::vector<pid_t> witnesses;
    for (const size_t i : {1u, 3u, 4u}) {
      witnesses.push_back(::fork());
      REQUIRE(witnesses.back() >= 0);
      if (witnesses.back() > 0) continue;
      record_end(dir.path(), kByAuthority[i]);
      std::_Exit(0);
    }
    for (const auto pid : witnesses) {
      int status = -1;
      REQUIRE(::waitpid(pid, &status, 0) == pid);
      CHECK(status == 0);
    }
    CHECK(read_end_facts(dir.path()).size() == 3);
    CHECK(run_end_from_json(Json::parse(read_file(dir / "end.json"))) == kByAuthority[1].end);
  }
}

TEST_CASE("end facts: a deleted run directory is not recreated, and a failed write is an error") {
  const TemporaryDirectory dir;
  CHECK_THROWS_AS(record_end(dir / "gone", kByAuthority[0]), Error);
  CHECK_FALSE(std::filesystem::exists(dir / "gone"));
  CHECK_NOTHROW(clear_end(dir / "gone"));
}
