#include "catalog/run_list.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <optional>

#include "catalog/index/catalog_index.h"
#include "catalog/run_stamp.h"
#include "lockstep/error.h"
#include "tests/tracking/runs_of_a_lab.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/log/event_log_segment.h"

using namespace lockstep;
using namespace lockstep::catalog;

namespace {

const tracking::RankSelection kMain = {}, kAll = {.kind = tracking::RankSelection::Kind::All};

// A list and its entries, which live as long as the list.
struct Listed {
  std::unique_ptr<RunList> list;
  std::vector<RunEntry> entries;

  const RunEntry& at(size_t i) const { return entries.at(i); }
};

Listed list_runs(const std::filesystem::path& dir) {
  Listed listed{.list = std::make_unique<RunList>(dir), .entries = {}};
  listed.entries = listed.list->all();
  return listed;
}

Listed find_run(const std::filesystem::path& dir, const std::string& id) {
  Listed listed{.list = std::make_unique<RunList>(dir), .entries = {}};
  listed.entries = listed.list->find(id);
  return listed;
}

std::vector<std::string> ids(const Listed& listed) {
  std::vector<std::string> ids;
  for (const auto& entry : listed.entries) ids.push_back(entry.info().id);
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
  CHECK(records.at(1).info().group == "c");
  CHECK(records.at(1).metrics().at("train/loss")->last == 2.5);
  CHECK(records.at(1).metrics().at("train/loss")->min == 2.5);
  CHECK(records.at(0).metrics().at("train/loss")->min == 1.5);
  CHECK(records.at(0).metrics().at("train/loss")->step == 2);
  CHECK(records.at(0).metrics().at("train/loss")->count == 2);
}

TEST_CASE("runs: the state comes from end.json, then the log, then whether a process writes it") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  const auto state = [&] { return list_runs(runs.path()).at(0).end().state; };
  CHECK(state() == RunState::Finished);
  tracking::record_end(
      runs / "job",
      {.state = RunState::Failed, .exit_code = 75, .signal = 9, .rank = 1, .reason = "killed"});
  CHECK(state() == RunState::Failed);
  CHECK(list_runs(runs.path()).at(0).end().reason == "killed");
  tracking::clear_end(runs / "job");
  std::optional<tracking::EventLogWriter> writer(std::in_place,
                                                 tracking::event_log_path(runs / "job", 0));
  writer->identity(tracking::sample_info("job"));
  CHECK(state() == RunState::Running);
  CHECK(list_runs(runs.path()).at(0).notes().empty());
  writer.reset();
  CHECK(state() == RunState::Lost);
  std::filesystem::remove_all(runs / "job/events");
  CHECK(state() == RunState::Lost);
}

TEST_CASE("runs: corrupt runs are listed with what could be read and a note") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  const auto path = tracking::event_log_path(runs / "job", 0);
  auto bytes = read_file(path);
  bytes[bytes.size() - 5] = static_cast<char>(bytes[bytes.size() - 5] ^ 1);
  write_file_durably(path, bytes);
  write_file_durably(runs / "job/run.json", "{ not json");
  auto listed = list_runs(runs.path());
  CHECK(listed.at(0).info().id == "job");
  CHECK(listed.at(0).end().state == RunState::Lost);
  CHECK(listed.at(0).metrics().at("eval/accuracy")->last == 0.9);
  REQUIRE(listed.at(0).notes().size() == 1);
  CHECK(listed.at(0).notes()[0].starts_with("rank-00000.lsev: corrupt after 7 records ("));
  write_file_durably(path, "no log at all");
  listed = list_runs(runs.path());
  CHECK(listed.at(0).info().id == "job");
  CHECK(listed.at(0).notes() == Ids{"rank-00000.lsev: not an event log"});
  std::filesystem::remove(path);
  std::filesystem::create_directories(path);
  add_job(runs.path(), "other", kMain, 1, 1.6e9);
  CHECK(ids(list_runs(runs.path())) == Ids{"other", "job"});
  CHECK(list_runs(runs.path()).at(1).notes() ==
        Ids{"cannot read " + path.string() + ": not a file"});
}

TEST_CASE("runs: an id may be an entry, a job, or a prefix of either") {
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
  CHECK(error_of(runs / "missing", "a") == "config: there is no runs directory at '" +
                                               (runs / "missing").string() +
                                               "': train first, or set --dir");
}

namespace {

// The index entry that a dashboard would write for a run, with a note that only the index has.
void keep_in_index(const std::filesystem::path& runs, const std::vector<std::string>& ids) {
  NameTable names;
  std::vector<std::pair<RunSnapshot, uint64_t>> kept;
  for (const auto& id : ids) {
    auto summary = *read_run(runs / id, names);
    summary.tags.note = "of the index";
    kept.emplace_back(std::make_shared<const RunSummary>(summary), stamp_of(runs / id));
  }
  write_catalog_index(catalog_index_path(runs), kept, names);
}

std::vector<std::string> notes_of_tags(const std::filesystem::path& runs) {
  std::vector<std::string> notes;
  const auto listed = list_runs(runs);
  for (const auto& entry : listed.entries) notes.push_back(entry.run->tags.note);
  return notes;
}

}  // namespace

TEST_CASE("runs: indexed runs are not read again unless they changed") {
  const TemporaryDirectory runs;
  for (const std::string id : {"a", "b", "c", "d"}) add_job(runs.path(), id, kMain, 1, 1.7e9);
  keep_in_index(runs.path(), {"a", "b", "c"});
  CHECK(notes_of_tags(runs.path()) == Ids{"of the index", "of the index", "of the index", ""});
  const auto listed = list_runs(runs.path());
  CHECK(listed.at(0).metrics().at("train/loss")->last == 1.5);
  CHECK(listed.at(0).config()["optimizer"]["lr"] == 0.1);
  CHECK(listed.at(0).info().host == "node1");
  {
    tracking::EventLogWriter log(tracking::event_log_path(runs / "a", 0));
    log_loss(log, 3, 0.5);
  }
  tracking::record_end(runs / "b", {.state = RunState::Failed, .exit_code = 70});
  CHECK(notes_of_tags(runs.path()) == Ids{"", "", "of the index", ""});
  CHECK(list_runs(runs.path()).at(0).step() == 3);
  CHECK(list_runs(runs.path()).at(1).end().exit_code == 70);
  std::filesystem::remove_all(runs / "c");
  CHECK(ids(list_runs(runs.path())) == Ids{"a", "b", "d"});
}

TEST_CASE("runs: a corrupt, old or missing index is ignored, and never written") {
  const TemporaryDirectory runs;
  for (const std::string id : {"a", "b"}) add_job(runs.path(), id, kMain, 1, 1.7e9);
  keep_in_index(runs.path(), {"a", "b"});
  const auto index = catalog_index_path(runs.path());
  const auto good = read_file(index);
  auto old_version = good;
  --old_version[8];
  auto flipped = good;
  flipped[good.size() - 9] = static_cast<char>(flipped[good.size() - 9] ^ 4);
  for (const auto& bytes : {std::string(), old_version, good.substr(0, 30), flipped}) {
    write_file_durably(index, bytes);
    CHECK(ids(list_runs(runs.path())) == Ids{"a", "b"});
    CHECK(notes_of_tags(runs.path()).back().empty());
    CHECK(read_file(index) == bytes);
  }
  std::filesystem::remove_all(index.parent_path());
  CHECK(notes_of_tags(runs.path()) == Ids{"", ""});
  CHECK_FALSE(std::filesystem::exists(index.parent_path()));
}

TEST_CASE("runs: logs that are links are read even if the index does not have them") {
  const TemporaryDirectory runs, elsewhere;
  add_job(elsewhere.path(), "job", kAll, 2, 1.7e9);
  std::filesystem::create_directories(runs / "job/events");
  std::filesystem::copy(elsewhere / "job/run.json", runs / "job/run.json");
  std::filesystem::create_symlink(tracking::event_log_path(elsewhere / "job", 0),
                                  tracking::event_log_path(runs / "job", 0));
  NameTable names;
  RunLogs refusing(runs / "job", names, nullptr);
  refusing.catch_up();
  const auto summary = std::make_shared<const RunSummary>(summarize_run(refusing, names));
  CHECK(summary->sources.empty());
  write_catalog_index(catalog_index_path(runs.path()), {{summary, stamp_of(runs / "job")}}, names);
  CHECK(ids(list_runs(runs.path())) == Ids{"job-rank-0"});
  std::filesystem::remove_all(runs / "job/events");
  std::filesystem::create_directory_symlink(elsewhere / "job/events", runs / "job/events");
  write_catalog_index(catalog_index_path(runs.path()), {{summary, stamp_of(runs / "job")}}, names);
  CHECK(ids(list_runs(runs.path())) == Ids{"job-rank-0", "job-rank-1"});
}

TEST_CASE("runs: a run is found by its directory, and a copy of it is not mixed with it") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "a", kMain, 1, 1.7e9);
  std::filesystem::copy(runs / "a", runs / "copy", std::filesystem::copy_options::recursive);
  CHECK(find_run(runs.path(), "a").entries.size() == 1);
  CHECK(find_run_directory(runs.path(), "a") == runs / "a");
  for (const auto* path : {"a", "a/", "./a"})
    CHECK(ids(find_run(runs.path(), (runs / path).string())) == Ids{"a"});
  const TemporaryDirectory others;
  CHECK(error_of(others.path(), (runs / "a").string())
            .starts_with("config: there is no run '" + (runs / "a").string() + "' in '"));
  CHECK(error_of(runs.path(), "copy").starts_with("config: there is no run 'copy'"));
  CHECK(error_of(runs.path(), "../a").starts_with("config: there is no run '../a'"));
}

TEST_CASE("runs: the step is that of the values, even if an image was logged before them") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  {
    tracking::EventLogWriter log(tracking::event_log_path(runs / "job", 0));
    log.image({.at = {.name = "digits", .step = 9, .time = 1.7e9},
               .width = 1,
               .height = 1,
               .png = "png"});
    log_loss(log, 9, 0.5);
  }
  CHECK(list_runs(runs.path()).at(0).step() == 9);
}

TEST_CASE("runs: corruption in a segment before the last one, and in a node's log, is reported") {
  const TemporaryDirectory runs;
  add_job(runs.path(), "job", kMain, 1, 1.7e9);
  const auto path = tracking::event_log_path(runs / "job", 0);
  std::filesystem::remove(path);
  {
    tracking::EventLogWriter log(path, 4000);
    log.identity(tracking::sample_info("job"));
    for (int64_t step = 0; step < 200; ++step) log_loss(log, step, 1);
    log.end({.state = RunState::Finished});
  }
  REQUIRE(std::filesystem::exists(tracking::segment_path(path, 1)));
  auto bytes = read_file(path);
  const auto last = bytes.find_last_not_of('\0');
  bytes[last - 3] = static_cast<char>(bytes[last - 3] ^ 1);
  write_file_durably(path, bytes);
  const auto log = tracking::read_event_log(path);
  REQUIRE(log.torn);
  auto listed = list_runs(runs.path());
  CHECK(
      listed.at(0).notes() ==
      Ids{fmt::format("rank-00000.lsev: corrupt after {} records ({} bytes); only those are shown",
                      log.num_frames, log.good_bytes)});
  CHECK(listed.at(0).metrics().at("train/loss")->count == log.rows.size());
  write_file_durably(tracking::node_log_path(runs / "job", 0), "no log at all");
  CHECK(list_runs(runs.path()).at(0).notes().back() == "node-00000.lsev: not an event log");
}
