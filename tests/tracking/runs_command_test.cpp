#include "cli/runs/runs_command.h"

#include <algorithm>
#include <array>
#include <catch2/catch.hpp>
#include <functional>
#include <sstream>

#include "cli/runs/runs_view.h"
#include "lockstep/error.h"
#include "tests/tracking/runs_of_a_lab.h"
#include "tracking/runs/run_tags.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

const RankSelection kMain = {}, kAll = {.kind = RankSelection::Kind::All};

class Lab {
 public:
  std::string operator()(std::vector<std::string> words) {
    words.insert(words.end(), {"--dir", runs_.path().string()});
    std::ostringstream out, notes;
    cli::run_runs_command(words, out, notes);
    notes_ = notes.str();
    return out.str();
  }
  std::string error_of(const std::vector<std::string>& words) {
    try {
      (*this)(words);
    } catch (const Error& error) {
      return std::string(kind_name(error.kind())) + ": " + error.what();
    }
    return "no error";
  }
  const std::filesystem::path& path() const { return runs_.path(); }
  const std::string& notes() const { return notes_; }

 private:
  TemporaryDirectory runs_;
  std::string notes_;
};

}  // namespace

TEST_CASE("runs list: JSON has what scripts need") {
  Lab lab;
  CHECK(lab({"list", "--json"}) == "[]\n");
  add_job(lab.path(), "mnist-1", kMain, 2, 1700000000);
  const auto list = Json::parse(lab({"list", "--json"}));
  REQUIRE(list.size() == 1);
  CHECK(list[0] == Json{{"id", "mnist-1"},
                        {"name", "mnist"},
                        {"group", nullptr},
                        {"job_type", nullptr},
                        {"state", "finished"},
                        {"exit", 0},
                        {"created", "2023-11-14T22:13:20Z"},
                        {"rank", 0},
                        {"world_size", 2},
                        {"dir", (lab.path() / "mnist-1").string()},
                        {"step", 2},
                        {"planned", {{"steps", nullptr}, {"epochs", nullptr}}},
                        {"summary", {{"eval/accuracy", 0.9}, {"train/loss", 1.5}}}});
}

TEST_CASE("runs: the planned length is that of the last process in the log") {
  Lab lab;
  add_job(lab.path(), "mnist-1", kMain, 1, 1700000000);
  CHECK(lab({"show", "mnist-1"}).find("step       2\n") != std::string::npos);
  for (const int64_t steps : {3000, 6000}) {
    auto info = sample_info("mnist-1");
    info.planned = {.steps = steps, .epochs = 2};
    EventLogWriter log(event_log_path(lab.path() / "mnist-1", 0));
    log.identity(info);
    log_loss(log, steps / 2, 1);
  }
  const auto list = Json::parse(lab({"list", "--json"}));
  CHECK(list[0]["planned"] == Json{{"steps", 6000}, {"epochs", 2}});
  CHECK(Json::parse(lab({"show", "mnist-1", "--json"}))["planned"] == list[0]["planned"]);
  CHECK(lab({"show", "mnist-1"}).find("step       3000 of 6000\n") != std::string::npos);
}

TEST_CASE("runs list: NaN and infinity are text in JSON, a lost run has no exit code") {
  Lab lab;
  write_sample_log((std::filesystem::create_directories(lab.path() / "a/events"),
                    event_log_path(lab.path() / "a", 0)));
  {
    EventLogWriter log(event_log_path(lab.path() / "a", 0));
    log.identity(sample_info("a"));
    log_loss(log, 9, std::numeric_limits<double>::quiet_NaN());
  }
  const auto list = Json::parse(lab({"list", "--json"}));
  CHECK(list[0]["summary"]["train/loss"] == "nan");
  CHECK(list[0]["summary"]["best"] == 0.75);
  CHECK(list[0]["state"] == "lost");
  CHECK(list[0]["exit"].is_null());
  CHECK(Json::parse(lab({"show", "a", "--json"}))["metrics"]["train/loss"]["min"] == "-inf");
}

TEST_CASE("runs list: the table is aligned, newest first; without runs, a hint") {
  Lab lab;
  CHECK(lab({"list"}) == "no runs in '" + lab.path().string() +
                             "' yet; start one: lockstep launch -n 2 configs/mnist.yaml\n");
  const auto now = static_cast<double>(std::time(nullptr));
  add_job(lab.path(), "old", kMain, 1, now - 3 * 86400);
  add_job(lab.path(), "mnist-2", kAll, 2, now - 90);
  CHECK(lab({"list"}) ==
        "ID              NAME          STATE     RANKS   AGE     eval/accuracy  train/loss\n"
        "mnist-2-rank-0  mnist-rank-0  finished  0 of 2  1 min   0.9            1.5\n"
        "mnist-2-rank-1  mnist-rank-1  finished  1 of 2  1 min   0.9            2.5\n"
        "old             mnist         finished  1       3 days  0.9            1.5\n");
}

TEST_CASE("runs show: one page with metrics, ranks, checkpoints and config") {
  Lab lab;
  add_job(lab.path(), "mnist-2", kAll, 2, 1700000000);
  std::filesystem::create_directories(lab.path() / "mnist-2/checkpoints/200");
  std::filesystem::create_directories(lab.path() / "mnist-2/checkpoints/1000");
  std::filesystem::create_directories(lab.path() / "mnist-2/checkpoints/.tmp-7");
  std::filesystem::create_directories(lab.path() / "mnist-2/logs");
  record_end(lab.path() / "mnist-2", {.state = RunState::Failed,
                                      .exit_code = 75,
                                      .signal = 9,
                                      .rank = 1,
                                      .reason = "rank 1 was killed"});
  const auto page = Json::parse(lab({"show", "mnist-2", "--json"}));
  CHECK(page["id"] == "mnist-2");
  CHECK(page["state"] == "failed");
  CHECK(page["exit"] == 75);
  CHECK(page["reason"] == "rank 1 was killed");
  CHECK(page["signal"] == 9);
  CHECK(page["failed_rank"] == 1);
  CHECK(page["config"]["optimizer"]["lr"] == 0.1);
  CHECK(page["metrics"]["train/loss"] ==
        Json{{"last", 1.5}, {"min", 1.5}, {"max", 2.5}, {"step", 2}, {"count", 2}});
  CHECK(page["ranks"][1]["id"] == "mnist-2-rank-1");
  CHECK(page["ranks"][1]["summary"]["train/loss"] == 2.5);
  CHECK(page["logs"] == (lab.path() / "mnist-2/logs").string());
  CHECK(page["checkpoints"] == Json{(lab.path() / "mnist-2/checkpoints/200").string(),
                                    (lab.path() / "mnist-2/checkpoints/1000").string()});
  const auto text = lab({"show", "mnist-2"});
  CHECK(text.find("state       failed, exit 75, rank 1, signal 9: rank 1 was killed\n") !=
        std::string::npos);
  CHECK(text.find("train/loss     1.5   1.5  2.5  2     2\n") != std::string::npos);
  CHECK(text.find("\nconfig\noptimizer:") != std::string::npos);
}

TEST_CASE("runs show: results first, the machine last") {
  CHECK(std::ranges::is_sorted(std::array{"eval/loss", "train/loss", "data/wait_s", "time/step/max",
                                          "system/load_average_1m"},
                               std::less(), cli::metric_order));
}

TEST_CASE("runs show: the state of a job is that of its worst rank") {
  Lab lab;
  add_job(lab.path(), "job", kAll, 2, 1700000000);
  const auto state = [&] { return Json::parse(lab({"show", "job", "--json"}))["state"]; };
  CHECK(state() == "finished");
  auto info = sample_info("job-rank-1", 1, 2);
  info.job_id = "job";
  EventLogWriter(event_log_path(lab.path() / "job", 1)).identity(info);
  CHECK(state() == "lost");
  CHECK(Json::parse(lab({"show", "job-rank-0", "--json"}))["state"] == "finished");
  EventLogWriter(event_log_path(lab.path() / "job", 1))
      .end({.state = RunState::Failed, .exit_code = 75});
  CHECK(state() == "failed");
}

TEST_CASE("runs export: one row per value, of all ranks of a job") {
  Lab lab;
  add_job(lab.path(), "mnist-2", kAll, 2, 1700000000);
  CHECK(lab({"export", "mnist-2-rank-1", "--format", "csv"}) ==
        "metric,step,time,value,rank\n"
        "train/loss,1,1700000001.000000,2.5,1\n"
        "train/loss,2,1700000002.000000,2.5,1\n"
        "eval/accuracy,2,1700000002.000000,0.9,1\n");
  const auto rows = lab({"export", "mnist-2", "--format=jsonl"});
  CHECK(std::ranges::count(rows, '\n') == 6);
  CHECK(rows.starts_with(
      R"({"metric":"train/loss","step":1,"time":1700000001.0,"value":2.5,"rank":0})"));
}

TEST_CASE("runs export: names are quoted, corruption is a note, -o writes a file") {
  Lab lab;
  add_job(lab.path(), "a", kMain, 1, 1700000000);
  const auto path = event_log_path(lab.path() / "a", 0);
  {
    EventLogWriter log(path);
    const std::array<Metric, 1> values = {
        {{"odd, \"name\"", std::numeric_limits<double>::quiet_NaN()}}};
    log.scalars({.step = 3, .time = 0, .values = values});
  }
  write_file_durably(path, read_file(path) + "rubbish");
  const auto file = lab.path() / "out.csv";
  CHECK(lab({"export", "a", "-o", file.string()}).empty());
  CHECK(read_file(file).ends_with("\n\"odd, \"\"name\"\"\",3,0.000000,nan,0\n"));
  CHECK(lab.notes().starts_with("note: a: rank-00000.lsev: corrupt after 10 records ("));
}

TEST_CASE("runs export: NaN is nan with any sign, as in JSON") {
  Lab lab;
  add_job(lab.path(), "a", kMain, 1, 1700000000);
  {
    EventLogWriter log(event_log_path(lab.path() / "a", 0));
    log_loss(log, 3, -std::numeric_limits<double>::quiet_NaN());
  }
  CHECK(lab({"export", "a"}).ends_with(",nan,0\n"));
}

TEST_CASE("runs export: system metrics belong to the lowest logging rank of their node") {
  Lab lab;
  add_job(lab.path(), "job", kAll, 2, 1700000000);
  EventLogWriter log(node_log_path(lab.path() / "job", 0));
  const std::array<Metric, 1> values = {{{"system/cpu.percent", 50}}};
  log.scalars({.step = 0, .time = 1700000001, .values = values});
  CHECK(lab({"export", "job"}).find("system/cpu.percent,0,1700000001.000000,50,0\n") !=
        std::string::npos);
  CHECK(lab({"export", "job-rank-1"}).find("system/") == std::string::npos);
}

TEST_CASE("runs: control characters in names and reasons are escaped") {
  Lab lab;
  auto info = sample_info("job");
  info.name = "evil\x1b]0;title\x07";
  const nlohmann::json config = {{"run", {{"name", info.name}}}};
  create_run_directory(lab.path() / "job", info, config);
  {
    EventLogWriter log(event_log_path(lab.path() / "job", 0));
    log.identity(info);
    log.config(config);
    const std::array<Metric, 1> values = {{{"train/\x1b[2Jloss", 1}}};
    log.scalars({.step = 1, .values = values});
  }
  record_end(lab.path() / "job", {.state = RunState::Failed, .reason = "\x1b[31mred"});
  change_run_tags(lab.path() / "job", {}, "note\x1b[1m");
  for (const auto& words : std::vector<std::vector<std::string>>{{"show", "job"}, {"list"}}) {
    const auto text = lab(words);
    INFO(text);
    CHECK(text.find_first_of("\x1b\x07") == std::string::npos);
  }
  CHECK(lab({"show", "job"}).find("evil\\x1b]0;title\\x07") != std::string::npos);
}

TEST_CASE("runs: bad input is one Config error that lists valid values") {
  Lab lab;
  add_job(lab.path(), "mnist-1", kMain, 1, 1700000000);
  CHECK(lab.error_of({"lsit"}) ==
        "config: lockstep runs: unknown command 'lsit'; did you mean 'list'? valid: list, show, "
        "compare, export, watch, tag, stop, delete, gc");
  CHECK(lab.error_of({"show", "mnist-2"}).ends_with("did you mean 'mnist-1'?"));
  CHECK(lab.error_of({"show"}) ==
        "config: lockstep runs show: missing run ID; 'lockstep runs list' lists the runs");
  CHECK(lab.error_of({"show", "mnist-1", "more"}) ==
        "config: lockstep runs show: unexpected argument 'more'");
  CHECK(lab.error_of({"list", "--jsn"}) ==
        "config: lockstep runs list: unknown option '--jsn'; did you mean '--json'? valid: --dir, "
        "--json, --tag");
  CHECK(lab.error_of({"export", "mnist-1", "-o"}) ==
        "config: lockstep runs export: -o needs a file, not '--dir'");
  CHECK(lab.error_of({"export", "mnist-1", "-o", "/no/such/a.csv"}) ==
        "config: lockstep runs export: -o /no/such/a.csv: the directory /no/such does not exist");
  CHECK(lab.error_of({"export", "mnist-1", "-o", "/tmp"}) ==
        "config: lockstep runs export: -o /tmp: is a directory");
  CHECK(lab.error_of({"export", "mnist-1", "--format", "xml"}) ==
        "config: lockstep runs export: --format 'xml' is unknown; valid: csv, jsonl");
  std::ostringstream out;
  CHECK_THROWS_WITH(cli::run_runs_command({"list", "--dir", "/no/such"}, out, out),
                    "there is no runs directory at '/no/such': train first, or set --dir");
}

TEST_CASE("runs: a value that is 'help' does not ask for help") {
  Lab lab;
  add_job(lab.path(), "mnist-1", kMain, 1, 1700000000);
  CHECK(Json::parse(lab({"tag", "mnist-1", "--note", "help", "--json"}))["note"] == "help");
}

TEST_CASE("runs: help lists every command") {
  std::ostringstream out;
  CHECK(cli::run_runs_command({"--help"}, out, out) == 0);
  std::ostringstream same;
  CHECK(cli::run_runs_command({"help"}, same, same) == 0);
  CHECK(same.str() == out.str());
  CHECK_THROWS_WITH(cli::run_runs_command({}, out, out),
                    "lockstep runs: a command is missing; valid: list, show, compare, export, "
                    "watch, tag, stop, delete, gc");
  for (const char* command : {"runs list", "runs show ID", "runs compare ID", "runs export ID",
                              "runs tag ID", "runs delete ID", "runs gc"})
    CHECK(out.str().find(command) != std::string::npos);
}
