#include "tracking/copies/run_receiver.h"

#include <poll.h>

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"
#include "tests/tracking/sample_log.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/copies/run_files.h"
#include "tracking/log/event_log_reader.h"
#include "tracking/runs/run_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;
using namespace std::chrono_literals;

namespace fs = std::filesystem;

namespace {

const RunReceiver::Request kRun{.run = "mnist-1", .sender = "ada"};
const std::string kLog = "rank-00000.lsev";

void put(RunReceiver& receiver, const RunReceiver::Request& request, const std::string& name,
         const std::string& bytes) {
  receiver.put_file(request, name, bytes, sha256_of(bytes));
}

// The status of the refusal; 200 if there is none.
template <class Call>
int status_of(const Call& call) {
  try {
    call();
    return 200;
  } catch (const Refusal& refusal) {
    return refusal.status;
  }
}

template <class Condition>
bool becomes_true(const Condition& condition) {
  const auto latest = std::chrono::steady_clock::now() + 60s;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > latest) return false;
    ::poll(nullptr, 0, 5);
  }
  return true;
}

struct Receiving {
  explicit Receiving(const ReceiveLimits& limits = {.min_free_bytes = 0})
      : receiver(dir.path(), limits) {
    write_sample_log(dir / "source.log");
    log = read_file(dir / "source.log");
    fs::remove(dir / "source.log");
  }

  size_t num_entries() const {
    return static_cast<size_t>(std::distance(fs::recursive_directory_iterator(dir.path()), {}));
  }

  TemporaryDirectory dir;
  fs::path run = dir / "mnist-1";
  std::string log;  // the bytes of a log
  RunReceiver receiver;
};

}  // namespace

TEST_CASE("receiver: a log is appended to at its size only, and has a writer until the end") {
  Receiving r;
  CHECK(r.receiver.log(kRun, kLog).size == 0);
  CHECK_FALSE(fs::exists(r.run));
  const auto first = r.log.substr(0, 100);
  const auto appended = r.receiver.append(kRun, kLog, first, 0);
  CHECK(appended.fits);
  CHECK(appended.copy.size == 100);
  CHECK_FALSE(r.receiver.append(kRun, kLog, first, 0).fits);
  CHECK_FALSE(r.receiver.append(kRun, kLog, first, 101).fits);
  CHECK(has_writer(event_log_path(r.run, 0)));
  CHECK(r.receiver.append(kRun, kLog, r.log.substr(100), 100).fits);
  CHECK(r.receiver.log(kRun, kLog).size == r.log.size());
  r.receiver.end(kRun);
  CHECK_FALSE(has_writer(event_log_path(r.run, 0)));
  // Reading the state afterwards does not make it a running run.
  CHECK(r.receiver.log(kRun, kLog).size == r.log.size());
  CHECK_FALSE(has_writer(event_log_path(r.run, 0)));
  CHECK(read_file(event_log_path(r.run, 0)) == r.log);
}

TEST_CASE("receiver: another receiver continues, and a running run has a writer in all its logs") {
  Receiving r;
  r.receiver.append(kRun, kLog, r.log, 0);
  r.receiver.append(kRun, "rank-00001.lsev", r.log.substr(0, 90), 0);
  r.receiver.end(kRun);
  RunReceiver next(r.dir.path(), {.min_free_bytes = 0});
  CHECK(next.log(kRun, "rank-00001.lsev").size == 90);
  CHECK(next.append(kRun, "rank-00001.lsev", r.log.substr(90), 90).fits);
  CHECK(has_writer(event_log_path(r.run, 0)));
  CHECK(read_file(event_log_path(r.run, 1)) == r.log);
}

TEST_CASE("receiver: a silent sender is gone") {
  Receiving r({.min_free_bytes = 0, .silence = 50ms});
  r.receiver.append(kRun, kLog, r.log.substr(0, 100), 0);
  CHECK(becomes_true([&] { return !has_writer(event_log_path(r.run, 0)); }));
  CHECK(r.receiver.append(kRun, kLog, r.log.substr(100), 100).fits);
  CHECK(read_file(event_log_path(r.run, 0)) == r.log);
}

TEST_CASE("receiver: files are replaced as a whole and checked") {
  Receiving r;
  put(r.receiver, kRun, "run.json", R"({"id": "mnist-1"})");
  put(r.receiver, kRun, "config.yaml", "model: {name: mlp}\n");
  put(r.receiver, kRun, "ends/trainer-00001.json", "{}");
  put(r.receiver, kRun, "run.json", R"({"id": "mnist-1", "name": "x"})");
  CHECK(read_file(r.run / "run.json") == R"({"id": "mnist-1", "name": "x"})");
  const auto sums = r.receiver.files(kRun);
  CHECK(sums.size() == 3);
  CHECK(sums.at("ends/trainer-00001.json") == sha256_of("{}"));
  CHECK(status_of([&] { r.receiver.put_file(kRun, "run.json", "{}", sha256_of("{ }")); }) == 422);
  // Content that a program could load if it is named as a plugin.
  CHECK(status_of([&] {
          put(r.receiver, kRun, "data.json",
              "\x7f"
              "ELF");
        }) == 422);
  CHECK(status_of([&] {
          put(r.receiver, kRun, "config.yaml",
              "\x7f"
              "ELF");
        }) == 422);
  CHECK(status_of([&] {
          r.receiver.append(kRun, kLog,
                            "\x7f"
                            "ELF",
                            0);
        }) == 422);
  CHECK(status_of([&] { put(r.receiver, kRun, "run.json", std::string(300 << 10, ' ')); }) == 413);
  r.receiver.remove_file(kRun, "ends/trainer-00001.json");
  CHECK(r.receiver.files(kRun).size() == 2);
  CHECK(status_of([&] { r.receiver.remove_file(kRun, "run.json"); }) == 400);
}

TEST_CASE("receiver: tags that were changed here stay") {
  Receiving r;
  put(r.receiver, kRun, "tags.json", R"({"tags": ["a"]})");
  write_file_durably(r.run / "tags.json", R"({"tags": ["b"]})");
  put(r.receiver, kRun, "tags.json", R"({"tags": ["c"]})");
  CHECK(read_file(r.run / "tags.json") == R"({"tags": ["b"]})");
}

TEST_CASE("receiver: only files of a run directory, inside the directory of runs") {
  Receiving r;
  const auto before = r.num_entries();
  for (const char* name :
       {"", ".", "..", "../run.json", "run.json/", "/run.json", "ends/../run.json", "ends/",
        "ends/launcher-.json", "ends/other-00000.json", "received.json", "checkpoints/1", "x.so",
        "stop_request.json", "ends/launcher-00000000000.json", "RUN.JSON",
        "events/rank-00000.lsev"}) {
    INFO(name);
    CHECK(status_of([&] { put(r.receiver, kRun, name, "{}"); }) == 400);
  }
  for (const char* name : {"", "..", "../rank-00000.lsev", "rank-0.lsev/", "rank-.lsev", "x.lsev",
                           "rank-00000.lsev.tmp"}) {
    INFO(name);
    CHECK(status_of([&] { r.receiver.append(kRun, name, r.log, 0); }) == 400);
    CHECK(status_of([&] { r.receiver.log(kRun, name); }) == 400);
  }
  for (const char* run :
       {"", ".", "..", "../x", "a/b", ".trash", ".dashboard", "artifacts", "a b"}) {
    INFO(run);
    CHECK(status_of([&] { put(r.receiver, {run, "ada"}, "run.json", "{}"); }) == 400);
    CHECK(status_of([&] { r.receiver.append({run, "ada"}, kLog, r.log, 0); }) == 400);
    CHECK(status_of([&] { r.receiver.files({run, "ada"}); }) == 400);
  }
  CHECK(r.num_entries() == before);
}

TEST_CASE("receiver: runs of this machine, of other senders, and links are not touched") {
  Receiving r;
  fs::create_directories(r.dir / "own/events");
  fs::create_directories(r.dir / "elsewhere");
  fs::create_directory_symlink(r.dir / "elsewhere", r.dir / "link");
  put(r.receiver, kRun, "run.json", "{}");
  put(r.receiver, {"linked", "ada"}, "run.json", "{}");
  fs::remove(r.dir / "linked/events");
  fs::create_directory_symlink(r.dir / "elsewhere", r.dir / "linked/events");
  for (const RunReceiver::Request& request : {RunReceiver::Request{"own", "ada"},
                                              {"link", "ada"},
                                              {"linked", "ada"},
                                              {"mnist-1", "bob"}}) {
    INFO(request.run);
    CHECK(status_of([&] { put(r.receiver, request, "run.json", "[]"); }) == 409);
    CHECK(status_of([&] { r.receiver.append(request, kLog, r.log, 0); }) == 409);
    CHECK(status_of([&] { r.receiver.files(request); }) == 409);
    CHECK(status_of([&] { r.receiver.end(request); }) == 409);
  }
  CHECK(fs::is_empty(r.dir / "elsewhere"));
}

TEST_CASE("receiver: limits of runs, files, bytes and disk space") {
  Receiving r({.max_runs = 2, .max_files = 3, .max_run_bytes = 1000, .min_free_bytes = 0});
  put(r.receiver, kRun, "run.json", "{}");  // the second file, after received.json
  put(r.receiver, {"mnist-2", "ada"}, "run.json", "{}");
  CHECK(status_of([&] { put(r.receiver, {"mnist-3", "ada"}, "run.json", "{}"); }) == 507);
  CHECK_FALSE(fs::exists(r.dir / "mnist-3"));
  put(r.receiver, kRun, "data.json", "{}");
  CHECK(status_of([&] { put(r.receiver, kRun, "tags.json", "{}"); }) == 507);
  put(r.receiver, kRun, "data.json", "[]");  // exists
  const auto many = R"({"a": ")" + std::string(1000, 'x') + "\"}";
  CHECK(status_of([&] { put(r.receiver, kRun, "data.json", many); }) == 507);
  CHECK(read_file(r.run / "data.json") == "[]");

  Receiving full({.min_free_bytes = uint64_t{1} << 60});
  CHECK(status_of([&] { put(full.receiver, kRun, "run.json", "{}"); }) == 507);
}

TEST_CASE("receiver: limits count what is stored, also after failures and removals") {
  Receiving r({.max_files = 3, .max_run_bytes = 1000, .min_free_bytes = 0});
  const auto large = R"({"a": ")" + std::string(600, 'x') + "\"}";
  put(r.receiver, kRun, "end.json", large);
  r.receiver.remove_file(kRun, "end.json");
  put(r.receiver, kRun, "end.json", large);
  put(r.receiver, kRun, "end.json", "{}");
  put(r.receiver, kRun, "run.json", large);
  r.receiver.remove_file(kRun, "end.json");
  fs::create_directories(r.run / "data.json/x");  // cannot be replaced by a file
  CHECK_THROWS(put(r.receiver, kRun, "data.json", "{}"));
  CHECK_THROWS(put(r.receiver, kRun, "data.json", "{}"));
  fs::remove_all(r.run / "data.json");
  put(r.receiver, kRun, "data.json", "{}");
  CHECK(status_of([&] { put(r.receiver, kRun, "tags.json", "{}"); }) == 507);
}

TEST_CASE("receiver: a deleted run is created again only from its start, with its mark") {
  std::vector<std::string> created;
  Receiving r;
  RunReceiver receiver(r.dir.path(), {.min_free_bytes = 0},
                       [&](const auto& request) { created.push_back(request.sender); });
  CHECK(receiver.append(kRun, kLog, r.log.substr(0, 100), 0).fits);
  fs::remove_all(r.run);
  const auto appended = receiver.append(kRun, kLog, r.log.substr(100), 100);
  CHECK_FALSE(appended.fits);
  CHECK(appended.copy == LogCopy{});
  CHECK_FALSE(fs::exists(r.run));
  CHECK(receiver.append(kRun, kLog, r.log, 0).fits);
  CHECK(is_received_run(r.run));
  CHECK(read_file(event_log_path(r.run, 0)) == r.log);
  CHECK(created == std::vector<std::string>{"ada", "ada"});
}

TEST_CASE("receiver: deeply nested JSON is refused") {
  Receiving r;
  const auto nested = [](size_t depth) {
    return "{\"a\": " + std::string(depth, '[') + std::string(depth, ']') + "}";
  };
  for (const char* name : {"run.json", "software.json", "data.json", "tags.json", "end.json",
                           "rank_losses.json", "ends/agent-00000.json"}) {
    CHECK(status_of([&] { put(r.receiver, kRun, name, nested(100'000)); }) == 422);
    CHECK(status_of([&] { put(r.receiver, kRun, name, nested(50)); }) == 200);
  }
}

TEST_CASE("run files: a folder that cannot be listed is not an empty one") {
  TemporaryDirectory dir;
  CHECK(run_files(dir.path()).empty());
  write_file_durably(dir / "ends", "");
  CHECK_THROWS_WITH(run_files(dir.path()), Catch::Contains("cannot list"));
}

TEST_CASE("receiver: a run that was half created is created again") {
  TemporaryDirectory dir;
  fs::create_directories(dir / ".receiving-mnist-1/events");
  RunReceiver receiver(dir.path(), {.min_free_bytes = 0});
  CHECK_FALSE(fs::exists(dir / ".receiving-mnist-1"));
  fs::create_directories(dir / ".receiving-mnist-1");
  put(receiver, kRun, "run.json", "{}");
  CHECK_FALSE(fs::exists(dir / ".receiving-mnist-1"));
  CHECK(is_received_run(dir / "mnist-1"));
  // Deleted here: sent again, from the start.
  fs::remove_all(dir / "mnist-1");
  CHECK(receiver.files(kRun).empty());
  CHECK(receiver.log(kRun, kLog).size == 0);
}
