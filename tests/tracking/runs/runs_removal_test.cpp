#include <fcntl.h>
#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <fstream>

#include "tests/tracking/runs/lab_with_runs.h"
#include "tracking/artifacts/store.h"

using namespace lockstep;
using namespace lockstep::tracking;
namespace fs = std::filesystem;

namespace {

void write_text(const fs::path& path, const std::string& text) {
  make_directories(path.parent_path());
  std::ofstream(path, std::ios::binary) << text;
}

// Sets the modification time of everything at and below `path` to that many seconds ago.
void make_older(const fs::path& path, double seconds) {
  const timespec then{.tv_sec = std::time(nullptr) - static_cast<std::time_t>(seconds)};
  const std::array<timespec, 2> times = {then, then};
  const auto touch = [&](const fs::path& each) {
    REQUIRE(::utimensat(AT_FDCWD, each.c_str(), times.data(), AT_SYMLINK_NOFOLLOW) == 0);
  };
  if (fs::is_directory(fs::symlink_status(path)))
    for (const auto& entry : fs::recursive_directory_iterator(path)) touch(entry.path());
  touch(path);
}

const cli::AskUser kYes = [](const std::string&) { return true; };
const cli::AskUser kNo = [](const std::string&) { return false; };

}  // namespace

TEST_CASE("runs delete: asks for confirmation, unless --yes") {
  LabWithRuns lab;
  lab.add("a");
  lab.add("b");
  CHECK(lab.error_of({"delete", "a"}) ==
        "config: lockstep runs delete: cannot ask for confirmation without a terminal; to delete "
        "run 'a', use --yes");
  CHECK(lab.error_of({"delete", "a", "--yes=false"}) ==
        "config: lockstep runs delete: --yes false: takes no value; see lockstep runs --help");
  CHECK(lab({"delete", "a"}, kNo) == "kept a\n");
  CHECK(lab.ids().size() == 2);
  std::string question;
  const auto text = lab({"delete", "a"}, [&](const std::string& asked) {
    question = asked;
    return true;
  });
  CHECK(text.starts_with("deleted a, "));
  CHECK(question.starts_with("delete run 'a' (finished, "));
  CHECK(question.ends_with(", in " + (lab / "a").string() + ")?"));
  CHECK(lab.ids() == std::vector<std::string>{"b"});
  const auto json = lab.json({"delete", "b", "--yes"});
  CHECK(json["id"] == "b");
  CHECK(json["deleted"] == true);
  CHECK(json["bytes"] > 0);
  CHECK(fs::is_empty(lab.path()));
}

TEST_CASE("runs delete: rejects a running run, and one rank of several") {
  LabWithRuns lab;
  lab.add_all_ranks("job");
  CHECK(lab.error_of({"delete", "job-rank-1", "--yes"}) ==
        "config: lockstep runs delete: 'job-rank-1' is one entry of run 'job'; delete the whole "
        "run");
  {
    const EventLogWriter writer(event_log_path(lab / "job", 1));
    CHECK(lab.error_of({"delete", "job", "--yes"})
              .starts_with("config: lockstep runs delete: run 'job' is in use: "));
  }
  {
    const EventLogWriter agent(node_log_path(lab / "job", 0));
    CHECK(lab.error_of({"delete", "job", "--yes"}) ==
          "config: lockstep runs delete: run 'job' is in use: its tracking agent is running");
  }
  CHECK(lab.ids().size() == 2);
  lab({"delete", "job", "--yes"});
  CHECK(lab.ids().empty());
}

TEST_CASE("runs delete: symbolic links are removed, their targets are not") {
  LabWithRuns lab;
  const TemporaryDirectory elsewhere;
  write_text(elsewhere / "precious/file", "x");
  lab.add("a");
  fs::create_directory_symlink(elsewhere / "precious", lab / "a/checkpoints");
  fs::create_symlink(elsewhere / "precious/file", lab / "a/file");
  lab({"delete", "a", "--yes"});
  CHECK(lab.ids().empty());
  CHECK(read_file(elsewhere / "precious/file") == "x");
  add_job(elsewhere.path(), "linked", RankSelection{}, 1, 1700000000);
  fs::create_directory_symlink(elsewhere / "linked", lab / "linked");
  CHECK(lab.ids() == std::vector<std::string>{"linked"});
  lab({"delete", "linked", "--yes"});
  CHECK(lab.ids().empty());
  CHECK(fs::exists(elsewhere / "linked/run.json"));
  lab.add("b");
  fs::create_directory_symlink(elsewhere.path(), lab / ".trash");
  CHECK(lab.error_of({"delete", "b", "--yes"}) ==
        "environment: " + (lab / ".trash").string() + " is not a plain directory; remove it");
  CHECK(lab.ids() == std::vector<std::string>{"b"});
}

TEST_CASE("runs gc: without a selection of runs, only leftover files") {
  LabWithRuns lab;
  lab.add("a");
  lab.add("live");
  const EventLogWriter writer(event_log_path(lab / "live", 0));
  for (const std::string run : {"a", "live"}) {
    write_text(lab / (run + "/end.json.tmp-17"), "123");
    write_text(lab / (run + "/checkpoints/.tmp-5-17/model"), "1234");
    make_older(lab / (run + "/end.json.tmp-17"), 4000);
    make_older(lab / (run + "/checkpoints/.tmp-5-17"), 4000);
  }
  write_text(lab / "a/fresh.tmp", "at work");
  write_text(lab / "a/notes.tmpl", "mine");
  make_older(lab / "a/notes.tmpl", 4000);
  write_text(lab / ".trash/old-1/run.json", "12345");
  write_text(lab / "artifacts/blobs/.tmp-1", "1");
  const auto expected = Json::array(
      {Json{{"kind", "trash"}, {"path", (lab / ".trash/old-1").string()}, {"bytes", 5}},
       Json{{"kind", "temporary"},
            {"path", (lab / "a/checkpoints/.tmp-5-17").string()},
            {"bytes", 4}},
       Json{{"kind", "temporary"}, {"path", (lab / "a/end.json.tmp-17").string()}, {"bytes", 3}},
       Json{{"kind", "artifact"},
            {"path", (lab / "artifacts/blobs/.tmp-1").string()},
            {"bytes", 1}}});
  CHECK(lab.json({"gc", "--dry-run"}) ==
        Json{{"dry_run", true}, {"removed", expected}, {"bytes", 13}});
  CHECK(fs::exists(lab / "a/end.json.tmp-17"));
  CHECK(lab.json({"gc"}) == Json{{"dry_run", false}, {"removed", expected}, {"bytes", 13}});
  for (const auto& entry : expected) CHECK_FALSE(fs::exists(entry["path"].get<std::string>()));
  CHECK(lab({"gc"}) == "removed: 0 B in 0\n");
  CHECK(fs::exists(lab / "a/fresh.tmp"));
  CHECK(fs::exists(lab / "a/notes.tmpl"));
  CHECK(fs::exists(lab / "live/end.json.tmp-17"));
  CHECK(fs::exists(lab / "live/checkpoints/.tmp-5-17/model"));
  CHECK(lab.ids().size() == 2);
}

TEST_CASE("runs gc: selects runs by state and by the time of their last write") {
  LabWithRuns lab;
  const auto now = static_cast<double>(std::time(nullptr));
  const auto add = [&](const std::string& id, RunState state, double days) {
    lab.add(id, now - 100 * 86400);
    record_end(lab / id, {.state = state, .exit_code = 1});
    make_older(lab / id, days * 86400);
  };
  add("old-failed", RunState::Failed, 40);
  add("old-finished", RunState::Finished, 40);
  add("new-failed", RunState::Failed, 2);
  add("old-killed", RunState::Killed, 31);
  lab.add("just-failed");
  record_end(lab / "just-failed", {.state = RunState::Failed, .exit_code = 1});
  const auto of = [&](std::vector<std::string> words) {
    words.insert(words.begin(), "gc");
    std::vector<std::string> ids;
    const auto result = lab.json(std::move(words));
    for (const auto& entry : result["removed"])
      ids.push_back(fs::path(entry["path"].get<std::string>()).filename().string());
    return ids;
  };
  using Ids = std::vector<std::string>;
  CHECK(of({"--dry-run"}).empty());
  CHECK(of({"--dry-run", "--older-than", "30d"}) ==
        Ids{"old-failed", "old-finished", "old-killed"});
  CHECK(of({"--dry-run", "--older-than", "35 days"}) == Ids{"old-failed", "old-finished"});
  CHECK(of({"--dry-run", "--state", "failed"}) == Ids{"new-failed", "old-failed"});
  CHECK(of({"--dry-run", "--state", "failed", "--older-than", "0s"}) ==
        Ids{"just-failed", "new-failed", "old-failed"});
  CHECK(lab.ids().size() == 5);
  CHECK(of({"--state", "failed,killed", "--older-than", "4w"}) == Ids{"old-failed", "old-killed"});
  CHECK(lab.ids().size() == 3);
  CHECK_FALSE(fs::exists(lab / ".trash"));
  CHECK(lab({"gc", "--state", "finished"}).find("\nremoved: ") != std::string::npos);
  CHECK(lab.ids().size() == 2);
}

TEST_CASE("runs gc: a running run is never removed") {
  LabWithRuns lab;
  lab.add("live");
  record_end(lab / "live", {.state = RunState::Failed, .exit_code = 1});
  const EventLogWriter writer(event_log_path(lab / "live", 0));
  lab({"gc", "--older-than", "0s", "--state", "failed,lost,finished"});
  CHECK(lab.ids() == std::vector<std::string>{"live"});
}

TEST_CASE("runs gc: a failed removal is a note and exit code 75, the rest is removed") {
  LabWithRuns lab;
  lab.add("a");
  const ArtifactStore store(lab / "artifacts");
  write_text(lab / "file", "x");
  store.publish({.name = "net", .source = lab / "file"});
  write_text(lab / "artifacts/net/v1.json", "{");
  CHECK(lab({"gc", "--older-than", "0s"}).starts_with("run  "));
  CHECK(lab.code() == 75);
  CHECK(lab.notes() == "note: " + (lab / "artifacts/net/v1.json").string() +
                           ": corrupt: it is not a JSON object\n");
  CHECK(lab.ids().empty());
}

TEST_CASE("runs gc: bad ages and states are Config errors, before anything is removed") {
  LabWithRuns lab;
  lab.add("a");
  for (const std::string age : {"", "30", "d", "-1d", "30 y", "1e400d", "nan d", "30d "})
    CHECK(lab.error_of({"gc", "--older-than", age})
              .find("'" + age + "': expected an age such as 30d, 12h, 90min, 2w") !=
          std::string::npos);
  CHECK(lab.error_of({"gc", "--state", "fialed"})
            .starts_with("config: lockstep runs gc: --state 'fialed' is unknown; did you mean "
                         "'failed'?"));
  CHECK(lab.error_of({"gc", "--state", "running"}).starts_with("config: "));
  CHECK(lab.error_of({"gc", "--state", ","}).starts_with("config: "));
  CHECK(lab.error_of({"gc", "a"}) == "config: lockstep runs gc: unexpected argument 'a'");
  CHECK(lab.ids().size() == 1);
}
