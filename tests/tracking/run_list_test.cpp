#include "tracking/run_list.h"

#include <catch2/catch.hpp>
#include <optional>

#include "core/error.h"
#include "tests/tracking/runs_of_a_lab.h"

using namespace lockstep;

namespace {

const RankSelection kMain = {}, kAll = {.kind = RankSelection::Kind::All};

std::vector<std::string> ids(const std::vector<RunRecord>& records) {
  std::vector<std::string> ids;
  for (const auto& record : records) ids.push_back(record.info.id);
  return ids;
}

using Ids = std::vector<std::string>;

std::string error_of(const std::filesystem::path& dir, const std::string& id) {
  try {
    find_run(dir, id);
  } catch (const Error& error) {
    return std::string(kind_name(error.kind())) + ": " + error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("runs: newest job first, the ranks of a job in order") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "b", kMain, 2, 1.70e9);
  add_job(runs.path(), "c", kAll, 2, 1.72e9);
  add_job(runs.path(), "a", kMain, 1, 1.71e9);
  std::filesystem::create_directories(runs / "not a run");
  write_file_durably(runs / "notes.txt", "hello");
  const auto records = list_runs(runs.path());
  CHECK(ids(records) == Ids{"c-rank-0", "c-rank-1", "a", "b"});
  CHECK(records[1].info.group == "c");
  CHECK(records[1].metrics.at("train/loss").last == 2.5);
  CHECK(records[1].metrics.at("train/loss").min == 2.5);
  CHECK(records[0].metrics.at("train/loss").min == 1.5);
  CHECK(records[0].metrics.at("train/loss").step == 2);
  CHECK(records[0].metrics.at("train/loss").count == 2);
}

TEST_CASE("runs: the state is what end.json says, then the log, then whether a process writes it") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  const auto state = [&] { return list_runs(runs.path()).at(0).end.state; };
  CHECK(state() == RunState::Finished);
  tell_end(
      runs / "job",
      {.state = RunState::Failed, .exit_code = 75, .signal = 9, .rank = 1, .reason = "killed"});
  CHECK(state() == RunState::Failed);
  CHECK(list_runs(runs.path())[0].end.reason == "killed");
  clear_end(runs / "job");
  std::optional<EventLogWriter> writer(std::in_place, event_log_path(runs / "job", 0));
  writer->identity(sample_info("job"));
  CHECK(state() == RunState::Running);
  CHECK(list_runs(runs.path())[0].notes.empty());
  writer.reset();
  CHECK(state() == RunState::Lost);
  std::filesystem::remove_all(runs / "job/events");
  CHECK(state() == RunState::Lost);
}

TEST_CASE("runs: damaged runs are listed with what could be read and a note") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  const auto path = event_log_path(runs / "job", 0);
  auto bytes = read_file(path);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_file_durably(path, bytes);
  write_file_durably(runs / "job/run.json", "{ not json");
  auto record = list_runs(runs.path()).at(0);
  CHECK(record.info.id == "job");
  CHECK(record.end.state == RunState::Lost);
  CHECK(record.metrics.at("eval/accuracy").last == 0.9);
  REQUIRE(record.notes.size() == 1);
  CHECK(record.notes[0].starts_with("rank-00000.lsev: damaged after 7 records ("));
  write_file_durably(path, "no log at all");
  record = list_runs(runs.path()).at(0);
  CHECK(record.info.id == "job");
  CHECK(record.notes == Ids{"rank-00000.lsev: not an event log"});
  std::filesystem::remove(path);
  std::filesystem::create_directories(path);
  add_job(runs.path(), "other", kMain, 1, 1.6e9);
  CHECK(ids(list_runs(runs.path())) == Ids{"other", "job"});
  CHECK(list_runs(runs.path()).at(1).notes == Ids{"cannot read " + path.string() + ": not a file"});
}

TEST_CASE("runs: an id may be an entry, a job, or the beginning of one") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "mnist-1", kMain, 1, 1.70e9);
  add_job(runs.path(), "mnist-2", kAll, 2, 1.71e9);
  CHECK(ids(find_run(runs.path(), "mnist-1")) == Ids{"mnist-1"});
  CHECK(ids(find_run(runs.path(), "mnist-2")) == Ids{"mnist-2-rank-0", "mnist-2-rank-1"});
  CHECK(ids(find_run(runs.path(), "mnist-2-rank-1")) == Ids{"mnist-2-rank-1"});
  add_job(runs.path(), "gpt-1", kMain, 1, 1.72e9);
  CHECK(ids(find_run(runs.path(), "g")) == Ids{"gpt-1"});
  CHECK(error_of(runs.path(), "mnist") ==
        "config: run 'mnist' is not unique, 2 begin with it: mnist-1, mnist-2");
  CHECK(error_of(runs.path(), "mnits-1") == "config: there is no run 'mnits-1' in '" +
                                                runs.path().string() +
                                                "'; did you mean 'mnist-1'?");
  CHECK(error_of(runs.path(), "resnet-imagenet") ==
        "config: there is no run 'resnet-imagenet' in '" + runs.path().string() +
            "'; see lockstep runs list");
  CHECK(error_of(runs.path(), "").starts_with("config: there is no run ''"));
  CHECK(error_of(runs / "missing", "a") == "config: there is no directory of runs at '" +
                                               (runs / "missing").string() +
                                               "': train something first, or name it with --dir");
}
