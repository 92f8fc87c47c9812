#include <sys/file.h>

#include <fcntl.h>
#include <catch2/catch.hpp>

#include "core/system/file_descriptor.h"
#include "tests/tracking/artifacts/sample_store.h"
#include "tracking/artifacts/manifest.h"

using namespace lockstep;
using namespace lockstep::tracking;
namespace fs = std::filesystem;

namespace {

// The manifest of a valid artifact, to be modified.
Json sample_manifest() {
  Artifact artifact{.name = "net", .type = "model", .version = 1, .created = 1.7e9};
  artifact.files = {{"a", std::string(64, 'a'), 1}, {"b/c", std::string(64, 'b'), 2}};
  artifact.digest = artifact_digest(artifact.files);
  artifact.used_by = {"eval-1"};
  return Json::parse(manifest_text(artifact));
}

std::string problem_of(const std::string& text) {
  return error_of([&] { parse_manifest(text, "v1.json"); });
}

std::string index_problem_of(const std::string& text) {
  return error_of([&] { parse_index(text, "aliases.json"); });
}

}  // namespace

TEST_CASE("artifact manifest: any error is one Environment error that names the file") {
  CHECK(problem_of(sample_manifest().dump()) == "no error");
  const auto spoilt = [](const char* pointer, const Json& value) {
    auto json = sample_manifest();
    json[Json::json_pointer(pointer)] = value;
    return problem_of(json.dump());
  };
  const std::string corrupt = "environment: v1.json: corrupt: ";
  CHECK(spoilt("/format", 2) == corrupt + "it was written by another version of Lockstep");
  CHECK(spoilt("/format", "1") == corrupt + "'format' is not a valid number");
  CHECK(spoilt("/name", "../net") == corrupt + "'name' is not a valid name");
  CHECK(spoilt("/type", nullptr) == corrupt + "'type' is not a string");
  CHECK(spoilt("/version", 0) == corrupt + "version 0 is invalid");
  CHECK(spoilt("/version", -1) == corrupt + "'version' is not a valid number");
  CHECK(spoilt("/version", 1e9) == corrupt + "'version' is not a valid number");
  CHECK(spoilt("/digest", std::string(64, 'A')) == corrupt + "'digest' is not a SHA-256");
  CHECK(spoilt("/digest", std::string(64, 'c')) == corrupt + "its digest does not match its files");
  CHECK(spoilt("/created", "now") == corrupt + "'created' is not a number");
  CHECK(spoilt("/made_by", "../x") == corrupt + "'made_by' or 'used_by' is not a run ID");
  CHECK(spoilt("/used_by/0", 7) == corrupt + "'made_by' or 'used_by' is not a run ID");
  CHECK(spoilt("/metadata", Json::array()) == corrupt + "'metadata' is not an object");
  CHECK(spoilt("/files", Json::array()) == corrupt + "it has no files");
  CHECK(spoilt("/files", Json::object()) == corrupt + "'files' is not a list of at most 100000");
  CHECK(spoilt("/files/0", 1) == corrupt + "'path' is missing");
  CHECK(spoilt("/files/0/path", "../../etc/passwd") ==
        corrupt + "'../../etc/passwd' is not a valid path in an artifact");
  CHECK(spoilt("/files/0/path", "/a") == corrupt + "'/a' is not a valid path in an artifact");
  CHECK(spoilt("/files/0/path", "a\n") == corrupt + "'a\\n' is not a valid path in an artifact");
  CHECK(spoilt("/files/0/path", "b") == corrupt + "'b' is both a file and a directory");
  CHECK(spoilt("/files/0/path", "z") == corrupt + "its files are not sorted");
  CHECK(spoilt("/files/0/sha256", "aa") == corrupt + "'sha256' is not a SHA-256");
  CHECK(spoilt("/files/0/size", uint64_t{1} << 60) == corrupt + "its size is out of range");
  CHECK(spoilt("/files/0/size", std::numeric_limits<uint64_t>::max()) ==
        corrupt + "'size' is not a valid number");
  CHECK(spoilt("/files/0/size", 5) == corrupt + "its digest does not match its files");
}

TEST_CASE("artifact manifest: truncated, deeply nested and wide texts are rejected quickly") {
  const auto whole = sample_manifest().dump();
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK(problem_of(whole.substr(0, length)) ==
          "environment: v1.json: corrupt: it is not a JSON object");
  const std::string excessive =
      "environment: v1.json: corrupt: it is nested too deeply or has too many members";
  auto deep = sample_manifest();
  deep["metadata"]["x"] = Json::parse(std::string(40, '[') + std::string(40, ']'));
  CHECK(problem_of(deep.dump()) == excessive);
  CHECK(problem_of("{\"metadata\": " + std::string(5'000'000, '[')) == excessive);
  std::string wide = "{\"metadata\": {";
  for (int i = 0; i < 300'000; ++i) wide += "\"" + std::to_string(i) + "\": {},";
  CHECK(problem_of(wide + "\"\": 0}}") == excessive);
  CHECK(problem_of(std::string(kMaxManifestBytes + 1, ' ')) ==
        "environment: v1.json: corrupt: it is too large");
}

TEST_CASE("artifact index: aliases refer to existing versions") {
  const std::string a(64, 'a');
  const auto with = [&](const std::string& versions, const std::string& aliases) {
    return index_problem_of("{\"format\": 1, \"versions\": [" + versions + "], \"aliases\": {" +
                            aliases + "}}");
  };
  const auto one = "\"" + a + "\"";
  CHECK(with(one, "\"latest\": 1") == "no error");
  const std::string corrupt = "environment: aliases.json: corrupt: ";
  CHECK(with(one, "\"latest\": 2") == corrupt + "a version in 'aliases' is not a valid number");
  CHECK(with(one, "\"latest\": 0") == corrupt + "version 0 is invalid");
  CHECK(with(one, "\"best\": 1") == corrupt + "'latest' is missing");
  CHECK(with(one, "\"v3\": 1, \"latest\": 1") == corrupt + "'aliases' has an invalid name");
  CHECK(with(one + "," + one, "\"latest\": 1") ==
        corrupt + "'versions' has an invalid or duplicate digest");
  CHECK(with("1", "\"latest\": 1") == corrupt + "'versions' has an invalid or duplicate digest");
  CHECK(with("", "") == corrupt + "'latest' is missing");
}

TEST_CASE("artifacts: corrupt and missing contents are detected and never returned") {
  SampleStore lab;
  const auto made = lab.publish("one");
  CHECK(lab.store.verify(made).empty());
  const auto blob = lab.store.blob(made.files[1]);
  fs::permissions(blob, fs::perms(0644));
  write_text(blob, "onf");
  const auto problems = lab.store.verify(made);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with("net:v1: 'weights.bin': its content is corrupt: " + blob.string() +
                                " has 3 bytes with SHA-256 "));
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }) ==
        "environment: net:v1: 'weights.bin' is corrupt: " + blob.string() +
            " differs from its SHA-256");
  CHECK_FALSE(fs::exists(lab.path("out")));
  fs::remove(blob);
  CHECK(
      lab.store.verify(made) ==
      std::vector<std::string>{"net:v1: 'weights.bin': its content is missing: " + blob.string()});
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }).starts_with("environment: "));
  for (const auto& entry : fs::directory_iterator(lab.lab.path()))
    CHECK(entry.path().filename().string().find(".tmp-") == std::string::npos);
  CHECK(lab.publish("one").version == 1);  // restores it
  CHECK(lab.store.verify(made).empty());
}

TEST_CASE("artifacts: content replaced by a symbolic link is not followed") {
  SampleStore lab;
  const auto made = lab.publish("one");
  const auto blob = lab.store.blob(made.files[1]);
  write_text(lab.path("elsewhere"), "one");
  fs::remove(blob);
  fs::create_symlink(lab.path("elsewhere"), blob);
  REQUIRE(lab.store.verify(made).size() == 1);
  CHECK(lab.store.verify(made)[0].find("is a symbolic link") != std::string::npos);
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }).find("is a symbolic link") !=
        std::string::npos);
  lab.publish("one");
  CHECK_FALSE(fs::is_symlink(blob));
}

TEST_CASE("artifacts: one corrupt version does not hide others, and stops gc") {
  SampleStore lab;
  lab.publish("one");
  const auto two = lab.publish("two");
  const auto manifest = lab.path("runs/artifacts/net/v1.json");
  write_text(manifest, read_file(manifest).substr(0, 50));
  write_text(lab.path("runs/artifacts/blobs/.tmp-1"), "left behind");
  std::vector<std::string> problems;
  const auto left = lab.store.list(&problems);
  REQUIRE(left.size() == 1);
  CHECK(left[0].digest == two.digest);
  CHECK(problems ==
        std::vector<std::string>{manifest.string() + ": corrupt: it is not a JSON object"});
  CHECK(error_of([&] { lab.store.find("net:v1"); }) == "environment: " + problems[0]);
  CHECK(error_of([&] { lab.store.gc(false); }) == "environment: " + problems[0]);
  CHECK(fs::exists(lab.path("runs/artifacts/blobs/.tmp-1")));
  fs::copy_file(lab.path("runs/artifacts/net/v2.json"), manifest,
                fs::copy_options::overwrite_existing);
  CHECK(error_of([&] { lab.store.find("net:v1"); }) ==
        "environment: " + manifest.string() +
            " is corrupt: it differs from the version in the index");
}

TEST_CASE("artifacts: gc removes only unreferenced content") {
  SampleStore lab;
  const auto made = lab.publish("one");
  const auto root = lab.store.directory();
  const auto stray = "blobs/ab/ab" + std::string(62, '0');
  write_text(root / stray, "12345");
  write_text(root / "blobs/.tmp-17", "x");
  write_text(root / "net/v2.json", "of a killed process");
  write_text(root / "net/aliases.json.tmp-17", "y");
  write_text(root / "net/README", "mine");
  const std::vector<fs::path> expected = {"blobs/.tmp-17", stray, "net/aliases.json.tmp-17",
                                          "net/v2.json"};
  const auto reported = lab.store.gc(true);
  CHECK(reported.paths == expected);
  CHECK(reported.bytes == 5 + 1 + 1 + 19);
  CHECK(fs::exists(root / stray));
  CHECK(lab.store.gc(false).paths == expected);
  for (const auto& path : expected) CHECK_FALSE(fs::exists(root / path));
  CHECK(fs::exists(root / "net/README"));
  CHECK(lab.store.gc(false).paths.empty());
  CHECK(lab.store.verify(made).empty());
}

TEST_CASE("artifacts: a lock that is not free in time is an Environment error") {
  SampleStore lab;
  const auto made = lab.publish("one");
  const ArtifactStore hasty(lab.store.directory(), std::chrono::milliseconds(30));
  const auto lock = lab.store.directory() / "lock";
  FileDescriptor held(::open(lock.c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(held.get(), LOCK_EX) == 0);
  CHECK(error_of([&] { hasty.set_alias(made, "best"); }) ==
        "environment: " + lock.string() +
            " is still locked by another process after 0.03 s; try again later");
  CHECK(hasty.find("net").version == 1);
  held.close();
  hasty.set_alias(made, "best");
  // gc does not disturb a running publisher.
  FileDescriptor publisher(
      ::open((lab.store.directory() / ".blobs-lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(publisher.get(), LOCK_SH) == 0);
  CHECK(error_of([&] { hasty.gc(false); }).starts_with("environment: "));
  CHECK(hasty.find("net:best").version == 1);
}
