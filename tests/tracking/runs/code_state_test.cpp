#include "tracking/runs/code_state.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/tracking/runs/lab_with_runs.h"
#include "tracking/artifacts/sha256.h"
#include "tracking/runs/software.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

const std::string kPatch =
    "diff --git a/train.py b/train.py\n"
    "index 83db48f..bf269f4 100644\n"
    "--- a/train.py\n"
    "+++ b/train.py\n"
    "@@ -1,3 +1,3 @@\n"
    " line1\n"
    "--- removed\n"
    "+++ added\n"
    "+more\n";

CodeState changed(const std::string& diff) {
  return {.git = {.commit = std::string(40, 'a'), .branch = "main"},
          .diff = diff,
          .sha256 = sha256_of(diff)};
}

}  // namespace

TEST_CASE("code state: what was written is read, with the numbers of changed lines") {
  LabWithRuns lab;
  lab.add("a");
  CHECK(!read_code_state(lab / "a"));
  CHECK(!has_code_state_of_start(lab / "a"));
  CHECK(lab.error_of({"show", "a", "--diff"}) ==
        "config: lockstep runs show --diff: the run has no record of uncommitted changes");
  write_code_state(lab / "a", changed(kPatch));
  CHECK(has_code_state_of_start(lab / "a"));
  const auto state = read_code_state(lab / "a");
  REQUIRE(state);
  CHECK(state->diff == kPatch);
  CHECK(describe_changes(*state) == "1 file, +2 -1 lines (" + sha256_of(kPatch).substr(0, 8) + ")");
  CHECK(lab({"show", "a", "--diff"}) == kPatch);
  CHECK(lab.json({"show", "a"})["code"] == Json{{"commit", std::string(40, 'a')},
                                                {"branch", "main"},
                                                {"sha256", sha256_of(kPatch)},
                                                {"files", 1},
                                                {"added", 2},
                                                {"removed", 1}});
  // The run was started again, and nothing was recorded.
  const auto code = lab / "a" / "code.json";
  std::filesystem::last_write_time(
      lab / "a" / "run.json", std::filesystem::last_write_time(code) + std::chrono::seconds(1));
  CHECK(!has_code_state_of_start(lab / "a"));
  CHECK(!read_code_state(lab / "a"));
  write_code_state(lab / "a", changed(kPatch));
  std::filesystem::last_write_time(code, std::filesystem::last_write_time(lab / "a" / "run.json"));
  CHECK(read_code_state(lab / "a"));
  write_code_state(lab / "a", std::nullopt);
  CHECK(!read_code_state(lab / "a"));
}

TEST_CASE("code state: no changes, a problem, and files of other programs") {
  LabWithRuns lab;
  lab.add("a");
  write_code_state(lab / "a", changed(""));
  CHECK(lab({"show", "a", "--diff"}).empty());
  CHECK(lab.notes() == "no uncommitted changes\n");
  auto state = changed(kPatch);
  state.note = "not UTF-8";
  write_code_state(lab / "a", state);
  CHECK(lab({"show", "a", "--diff"}) == kPatch);
  CHECK(lab.notes() == "not UTF-8\n");
  CHECK(lab.json({"show", "a"})["code"]["note"] == "not UTF-8");
  state = changed("");
  state.problem = "the diff has more than 1 MiB";
  write_code_state(lab / "a", state);
  CHECK(lab.error_of({"show", "a", "--diff"}) ==
        "config: lockstep runs show --diff: the diff has more than 1 MiB");
  CHECK(lab({"show", "a"}).find("unknown: the diff has more than 1 MiB") != std::string::npos);
  for (const char* text : {"", "[]", "{}", R"({"commit": 1, "diff": []})", "{\"diff\": \"x"}) {
    write_file_durably(lab / "a" / "code.json", text);
    CHECK(!read_code_state(lab / "a"));
  }
}

TEST_CASE("runs compare: whether the commit and the changes are the same") {
  LabWithRuns lab;
  for (const char* id : {"a", "b", "c"}) lab.add(id);
  CHECK(!lab.json({"compare", "a", "b"}).contains("code"));
  write_code_state(lab / "a", changed(kPatch));
  write_code_state(lab / "b", changed(kPatch));
  CHECK(lab({"compare", "a", "b"})
            .find("\nthe same commit and the same changes of tracked files\n") !=
        std::string::npos);
  write_code_state(lab / "b", changed(""));
  CHECK(lab.json({"compare", "a", "b"})["code"]["uncommitted"]["b"] == "none");
  CHECK(lab({"compare", "a", "b"}).find("\nuncommitted  1 file, +2 -1 lines (") !=
        std::string::npos);
  // No record of one is not equality, nor are two that failed alike.
  CHECK(lab({"compare", "b", "c"}).find("\nuncommitted  none") != std::string::npos);
  auto failed = changed("");
  failed.problem = "git diff failed (exit code 128)";
  for (const char* id : {"a", "b"}) write_code_state(lab / id, failed);
  CHECK(lab({"compare", "a", "b"}).find("identical\n\ncode ") != std::string::npos);
}

TEST_CASE("software: versions of a run and of the driver") {
  const TemporaryDirectory place;
  const auto file = place.path() / "version";
  CHECK(nvidia_driver_version(file).empty());
  write_file_durably(file,
                     "NVRM version: NVIDIA UNIX x86_64 Kernel Module  570.133.20  Sun Mar 30 "
                     "03:37:04 UTC 2025\nGCC version:  gcc version 12.2.0\n");
  CHECK(nvidia_driver_version(file) == "570.133.20");
  write_file_durably(
      file, "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n");
  CHECK(nvidia_driver_version(file) == "580.65.06");
  CHECK(read_software(place.path()).empty());
  write_software(place.path(), {{"libtorch", "2.9.0"}});
  CHECK(read_software(place.path())["libtorch"] == "2.9.0");
  write_file_durably(place.path() / "software.json",
                     R"({"host": "x", "git": {}, "python": {"a": 1}, "lockstep": "1.0",
                         "packages": {"numpy": "2.1.0", "torch": {"a": []}}})");
  CHECK(read_software(place.path()) ==
        Json{{"lockstep", "1.0"}, {"packages", {{"numpy", "2.1.0"}}}});
  write_file_durably(place.path() / "software.json", "[1");
  CHECK(read_software(place.path()).empty());
}
