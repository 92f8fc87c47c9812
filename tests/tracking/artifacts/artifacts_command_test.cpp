#include "cli/runs/artifacts_command.h"

#include <catch2/catch.hpp>
#include <regex>
#include <sstream>

#include "tests/tracking/artifacts/sample_store.h"

using namespace lockstep;
using namespace lockstep::tracking;
namespace fs = std::filesystem;

namespace {

class Shelf : public SampleStore {
 public:
  std::string operator()(std::vector<std::string> words) {
    words.insert(words.end(), {"--dir", path("runs").string()});
    std::ostringstream out, notes;
    code_ = cli::run_artifacts_command(words, out, notes);
    notes_ = notes.str();
    return out.str();
  }
  std::string error(const std::vector<std::string>& words) {
    return error_of([&] { (*this)(words); });
  }
  int code() const { return code_; }
  const std::string& notes() const { return notes_; }

 private:
  int code_ = 0;
  std::string notes_;
};

}  // namespace

TEST_CASE("artifacts put, list, show: aligned, or as JSON for scripts") {
  Shelf shelf;
  CHECK(shelf({"list"}) == "no artifacts in '" + shelf.store.directory().string() +
                               "' yet; add one with: lockstep artifacts put NAME PATH\n");
  CHECK(shelf({"list", "--json"}) == "[]\n");
  CHECK(shelf({"put", "net", shelf.model("one").string(), "--type", "model", "--alias", "best",
               "--alias", "good", "--metadata", "epoch=3", "--metadata", "who=a,b=c", "--metadata",
               "ok=true"}) == "net:v1 (2 files, 5 B): best, good, latest\n");
  CHECK(shelf({"put", "net", shelf.model("two!").string(), "--type", "model"}) ==
        "net:v2 (2 files, 6 B): latest\n");
  const auto table = std::regex_replace(shelf({"list"}), std::regex(" [0-9]+ s  "), " AGO  ");
  CHECK(table ==
        "ARTIFACT  TYPE   FILES  SIZE  AGE  ALIASES\n"
        "net:v1    model  2      5 B   AGO  best,good\n"
        "net:v2    model  2      6 B   AGO  latest\n");
  const auto list = Json::parse(shelf({"list", "--json"}));
  REQUIRE(list.size() == 2);
  CHECK(list[0]["name"] == "net");
  CHECK(list[0]["version"] == 1);
  CHECK(list[0]["files"] == 2);
  CHECK(list[0]["bytes"] == 5);
  CHECK(list[0]["aliases"] == Json{"best", "good"});
  CHECK(list[0]["metadata"] == Json{{"epoch", 3}, {"who", "a,b=c"}, {"ok", true}});
  CHECK(list[0]["made_by"].is_null());
  const auto page = Json::parse(shelf({"show", "net:best", "--json"}));
  CHECK(page["digest"] == shelf.store.find("net:v1").digest);
  CHECK(page["files"][1]["path"] == "weights.bin");
  CHECK(page["files"][1]["size"] == 3);
  const auto text = shelf({"show", "net:v1"});
  CHECK(text.starts_with("artifact  net:v1\ntype      model\naliases   best, good\n"));
  CHECK(text.find("\nwho       a,b=c\n") != std::string::npos);
  CHECK(text.find("\nweights.bin      3 B   " + page["files"][1]["sha256"].get<std::string>() +
                  "\n") != std::string::npos);
}

TEST_CASE("artifacts --made-by and --used-by: the runs of a version, each once") {
  Shelf shelf;
  shelf({"put", "net", shelf.model("one").string(), "--made-by", "mnist-1"});
  for (const auto* run : {"mnist-2", "mnist-3", "mnist-2"})
    shelf({"show", "net", "--used-by", run});
  const auto page = Json::parse(shelf({"show", "net", "--json"}));
  CHECK(page["made_by"] == "mnist-1");
  CHECK(page["used_by"] == Json{"mnist-2", "mnist-3"});
  CHECK(shelf.error({"put", "net", shelf.model("two").string(), "--made-by", "../x"}) ==
        "config: '../x' is not a valid run ID");
  CHECK(shelf.error({"show", "net", "--used-by", ""}) == "config: '' is not a valid run ID");
}

TEST_CASE("artifacts get: a new directory with the files") {
  Shelf shelf;
  shelf.publish("one", {"best"});
  shelf.publish("two");
  const auto out = shelf.path("out").string();
  CHECK(shelf({"get", "net:best", "-o", out}) == "copied net:v1 to " + out + "\n");
  CHECK(read_file(shelf.path("out/weights.bin")) == "one");
  CHECK(shelf.error({"get", "net", "-o", out}) ==
        "config: " + out + " already exists; choose a directory that does not exist");
  CHECK(Json::parse(shelf({"get", "net", "-o", out + "2", "--json"})) ==
        Json{{"artifact", "net:v2"}, {"directory", out + "2"}});
}

TEST_CASE("artifacts alias: sets and removes") {
  Shelf shelf;
  shelf.publish("one");
  shelf.publish("two");
  CHECK(shelf({"alias", "net:v1", "best"}) == "net:v1: best\n");
  CHECK(Json::parse(shelf({"alias", "net", "best", "--json"}))["aliases"] ==
        Json{"best", "latest"});
  CHECK(shelf({"alias", "net", "best", "--remove"}) == "net:v2: latest\n");
  CHECK(shelf.error({"alias", "net", "best", "--remove"})
            .starts_with("config: artifact 'net' has no version 'best'"));
  CHECK(shelf.error({"alias", "net"}) ==
        "config: lockstep artifacts alias: missing alias-name; see lockstep artifacts --help");
}

TEST_CASE("artifacts verify: names the corrupt file and exits with 75") {
  Shelf shelf;
  const auto one = shelf.publish("one");
  shelf.publish("two");
  CHECK(shelf({"verify"}) == "verified 2 versions: no problems\n");
  CHECK(shelf.code() == 0);
  const auto blob = shelf.store.blob(one.files[1]);
  fs::permissions(blob, fs::perms(0644));
  write_text(blob, "0ne");
  CHECK(shelf({"verify"})
            .starts_with("net:v1: 'weights.bin': its content is corrupt: " + blob.string()));
  CHECK(shelf.code() == 75);
  CHECK(shelf({"verify", "net:v2"}) == "verified 1 version: no problems\n");
  CHECK(shelf.code() == 0);
  const auto json = Json::parse(shelf({"verify", "net:v1", "--json"}));
  CHECK(shelf.code() == 75);
  CHECK(json["problems"].size() == 1);
  const auto manifest = shelf.store.directory() / "net/v2.json";
  write_text(manifest, "{");
  CHECK(shelf({"verify"}).starts_with(manifest.string() + ": corrupt: it is not a JSON object\n"));
  CHECK(shelf.code() == 75);
  CHECK(shelf({"list"}).find("net:v1") != std::string::npos);
  CHECK(shelf.code() == 75);
  CHECK(shelf.notes() == "note: " + manifest.string() + ": corrupt: it is not a JSON object\n");
}

TEST_CASE("artifacts gc: removes files without a version") {
  Shelf shelf;
  shelf.publish("one");
  write_text(shelf.store.directory() / "blobs/.tmp-1", "12");
  CHECK(shelf({"gc", "--dry-run"}) == "blobs/.tmp-1\nwould be removed: 2 B in 1\n");
  CHECK(Json::parse(shelf({"gc", "--json"})) ==
        Json{{"dry_run", false}, {"removed", {"blobs/.tmp-1"}}, {"bytes", 2}});
  CHECK(shelf({"gc"}) == "removed: 0 B in 0\n");
}

TEST_CASE("artifacts: bad arguments are one Config error; help lists every command") {
  Shelf shelf;
  shelf.publish("one");
  CHECK(shelf.error({"shw"}).starts_with(
      "config: lockstep artifacts: unknown command 'shw'; did you mean 'show'?"));
  CHECK(shelf.error({"show"}) ==
        "config: lockstep artifacts show: missing artifact; see lockstep artifacts --help");
  CHECK(shelf.error({"show", "net", "more"}) ==
        "config: lockstep artifacts show: unexpected argument 'more'");
  CHECK(
      shelf.error({"gc", "--dryrun"}) ==
      "config: lockstep artifacts gc: unknown option '--dryrun'; did you mean '--dry-run'? valid: "
      "--dir, --json, --dry-run");
  CHECK(shelf.error({"put", "net", "x", "--metadata", "epoch"}) ==
        "config: lockstep artifacts put: --metadata 'epoch': expected KEY=VALUE");
  CHECK(shelf.error({"put", "net", "x", "--type"}).starts_with("config: lockstep artifacts put: "));
  CHECK(shelf.error({"show", "nte"}).ends_with("did you mean 'net'?"));
  std::ostringstream out;
  CHECK(error_of([&] { cli::run_artifacts_command({}, out, out); }) ==
        "config: lockstep artifacts: a command is missing; valid: list, show, get, put, alias, "
        "verify, gc");
  CHECK(cli::run_artifacts_command({"--help"}, out, out) == 0);
  for (const char* command : {"list", "show", "get", "put", "alias", "verify", "gc"})
    CHECK(out.str().find(std::string("lockstep artifacts ") + command) != std::string::npos);
}
