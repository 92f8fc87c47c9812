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

// The manifest of a valid artifact, to be spoilt.
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

TEST_CASE("artifact manifest: what is wrong is one Environment error with the file's name") {
  CHECK(problem_of(sample_manifest().dump()) == "no error");
  const auto spoilt = [](const char* pointer, const Json& value) {
    auto json = sample_manifest();
    json[Json::json_pointer(pointer)] = value;
    return problem_of(json.dump());
  };
  const std::string damaged = "environment: v1.json: damaged: ";
  CHECK(spoilt("/format", 2) == damaged + "it is of another version of Lockstep");
  CHECK(spoilt("/format", "1") == damaged + "'format' is no sensible number");
  CHECK(spoilt("/name", "../net") == damaged + "'name' is no name");
  CHECK(spoilt("/type", nullptr) == damaged + "'type' is no text");
  CHECK(spoilt("/version", 0) == damaged + "there is no version 0");
  CHECK(spoilt("/version", -1) == damaged + "'version' is no sensible number");
  CHECK(spoilt("/version", 1e9) == damaged + "'version' is no sensible number");
  CHECK(spoilt("/digest", std::string(64, 'A')) == damaged + "'digest' is no SHA-256");
  CHECK(spoilt("/digest", std::string(64, 'c')) == damaged + "its digest is not that of its files");
  CHECK(spoilt("/created", "now") == damaged + "'created' is no number");
  CHECK(spoilt("/made_by", "../x") == damaged + "what made or used it is no run");
  CHECK(spoilt("/used_by/0", 7) == damaged + "what made or used it is no run");
  CHECK(spoilt("/metadata", Json::array()) == damaged + "'metadata' is no object");
  CHECK(spoilt("/files", Json::array()) == damaged + "it has no files");
  CHECK(spoilt("/files", Json::object()) == damaged + "'files' is no list of at most 100000");
  CHECK(spoilt("/files/0", 1) == damaged + "'path' is missing");
  CHECK(spoilt("/files/0/path", "../../etc/passwd") ==
        damaged + "'../../etc/passwd' is no path within an artifact");
  CHECK(spoilt("/files/0/path", "/a") == damaged + "'/a' is no path within an artifact");
  CHECK(spoilt("/files/0/path", "a\n") == damaged + "'a\\n' is no path within an artifact");
  CHECK(spoilt("/files/0/path", "b") == damaged + "'b' is a file and a directory");
  CHECK(spoilt("/files/0/path", "z") == damaged + "its files are not in order");
  CHECK(spoilt("/files/0/sha256", "aa") == damaged + "'sha256' is no SHA-256");
  CHECK(spoilt("/files/0/size", uint64_t{1} << 60) == damaged + "its size is absurd");
  CHECK(spoilt("/files/0/size", std::numeric_limits<uint64_t>::max()) ==
        damaged + "'size' is no sensible number");
  CHECK(spoilt("/files/0/size", 5) == damaged + "its digest is not that of its files");
}

TEST_CASE("artifact manifest: truncated, deep and wide texts are refused, quickly") {
  const auto whole = sample_manifest().dump();
  for (size_t length = 0; length < whole.size(); ++length)
    CHECK(problem_of(whole.substr(0, length)) ==
          "environment: v1.json: damaged: it is no JSON object");
  const std::string excessive =
      "environment: v1.json: damaged: it nests too deep or has too many members";
  auto deep = sample_manifest();
  deep["metadata"]["x"] = Json::parse(std::string(40, '[') + std::string(40, ']'));
  CHECK(problem_of(deep.dump()) == excessive);
  CHECK(problem_of("{\"metadata\": " + std::string(5'000'000, '[')) == excessive);
  std::string wide = "{\"metadata\": {";
  for (int i = 0; i < 300'000; ++i) wide += "\"" + std::to_string(i) + "\": {},";
  CHECK(problem_of(wide + "\"\": 0}}") == excessive);
  CHECK(problem_of(std::string(kMaxManifestBytes + 1, ' ')) ==
        "environment: v1.json: damaged: it is too long");
}

TEST_CASE("artifact index: aliases mean versions that exist") {
  const std::string a(64, 'a');
  const auto with = [&](const std::string& versions, const std::string& aliases) {
    return index_problem_of("{\"format\": 1, \"versions\": [" + versions + "], \"aliases\": {" +
                            aliases + "}}");
  };
  const auto one = "\"" + a + "\"";
  CHECK(with(one, "\"latest\": 1") == "no error");
  const std::string damaged = "environment: aliases.json: damaged: ";
  CHECK(with(one, "\"latest\": 2") == damaged + "a version in 'aliases' is no sensible number");
  CHECK(with(one, "\"latest\": 0") == damaged + "there is no version 0");
  CHECK(with(one, "\"best\": 1") == damaged + "'latest' is missing");
  CHECK(with(one, "\"v3\": 1, \"latest\": 1") == damaged + "a name in 'aliases' is none");
  CHECK(with(one + "," + one, "\"latest\": 1") == damaged + "'versions' are no digests, each once");
  CHECK(with("1", "\"latest\": 1") == damaged + "'versions' are no digests, each once");
  CHECK(with("", "") == damaged + "'latest' is missing");
}

TEST_CASE("artifacts: damaged and missing contents are found, and never handed out") {
  SampleStore lab;
  const auto made = lab.publish("one");
  CHECK(lab.store.verify(made).empty());
  const auto blob = lab.store.blob(made.files[1]);
  fs::permissions(blob, fs::perms(0644));
  write_text(blob, "onf");
  const auto problems = lab.store.verify(made);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].starts_with("net:v1: 'weights.bin': its content is damaged: " + blob.string() +
                                " has 3 bytes with SHA-256 "));
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }) ==
        "environment: net:v1: 'weights.bin' is damaged: " + blob.string() + " is not what it was");
  CHECK_FALSE(fs::exists(lab.path("out")));
  fs::remove(blob);
  CHECK(
      lab.store.verify(made) ==
      std::vector<std::string>{"net:v1: 'weights.bin': its content is missing: " + blob.string()});
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }).starts_with("environment: "));
  for (const auto& entry : fs::directory_iterator(lab.lab.path()))
    CHECK(entry.path().filename().string().find(".tmp-") == std::string::npos);
  CHECK(lab.publish("one").version == 1);  // puts it back
  CHECK(lab.store.verify(made).empty());
}

TEST_CASE("artifacts: a content that became a link is not followed") {
  SampleStore lab;
  const auto made = lab.publish("one");
  const auto blob = lab.store.blob(made.files[1]);
  write_text(lab.path("elsewhere"), "one");
  fs::remove(blob);
  fs::create_symlink(lab.path("elsewhere"), blob);
  REQUIRE(lab.store.verify(made).size() == 1);
  CHECK(lab.store.verify(made)[0].find("is a link") != std::string::npos);
  CHECK(error_of([&] { lab.store.get(made, lab.path("out")); }).find("is a link") !=
        std::string::npos);
  lab.publish("one");
  CHECK_FALSE(fs::is_symlink(blob));
}

TEST_CASE("artifacts: one damaged version hides no other, and stops gc") {
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
        std::vector<std::string>{manifest.string() + ": damaged: it is no JSON object"});
  CHECK(error_of([&] { lab.store.find("net:v1"); }) == "environment: " + problems[0]);
  CHECK(error_of([&] { lab.store.gc(false); }) == "environment: " + problems[0]);
  CHECK(fs::exists(lab.path("runs/artifacts/blobs/.tmp-1")));
  fs::copy_file(lab.path("runs/artifacts/net/v2.json"), manifest,
                fs::copy_options::overwrite_existing);
  CHECK(error_of([&] { lab.store.find("net:v1"); }) ==
        "environment: " + manifest.string() +
            ": damaged: it is not the version that the index names");
}

TEST_CASE("artifacts: gc removes what no version has, and nothing else") {
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
  const auto told = lab.store.gc(true);
  CHECK(told.paths == expected);
  CHECK(told.bytes == 5 + 1 + 1 + 19);
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
  // A publisher at work is not disturbed by gc.
  FileDescriptor publisher(
      ::open((lab.store.directory() / ".blobs-lock").c_str(), O_RDWR | O_CLOEXEC));
  REQUIRE(::flock(publisher.get(), LOCK_SH) == 0);
  CHECK(error_of([&] { hasty.gc(false); }).starts_with("environment: "));
  CHECK(hasty.find("net:best").version == 1);
}
