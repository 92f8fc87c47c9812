#include <sys/stat.h>

#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <thread>

#include "tests/tracking/artifacts/sample_store.h"

using namespace lockstep;
using namespace lockstep::tracking;
namespace fs = std::filesystem;

namespace {

// sha256sum of "one", "{}".
constexpr auto kOne = "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed";
constexpr auto kBraces = "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a";

ino_t inode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_ino;
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  REQUIRE(::lstat(path.c_str(), &status) == 0);
  return status.st_mode & 0777;
}

}  // namespace

TEST_CASE("artifacts: published artifacts are found, with their files by SHA-256") {
  SampleStore lab;
  const auto made = lab.store.publish({.name = "net",
                                       .type = "model",
                                       .source = lab.model("one"),
                                       .metadata = {{"epoch", 3}},
                                       .made_by = "mnist-1"});
  CHECK(made.reference() == "net:v1");
  CHECK(made.type == "model");
  CHECK(made.files ==
        std::vector<ArtifactFile>{{"conf/model.json", kBraces, 2}, {"weights.bin", kOne, 3}});
  CHECK(made.digest == artifact_digest(made.files));
  CHECK(made.size() == 5);
  CHECK(made.aliases == std::vector<std::string>{"latest"});
  CHECK(made.made_by == "mnist-1");
  CHECK(made.metadata == Json{{"epoch", 3}});
  CHECK(std::abs(made.created - static_cast<double>(std::time(nullptr))) < 60);
  CHECK(read_file(lab.store.blob(made.files[1])) == "one");
  CHECK(lab.store.blob(made.files[1]) == lab.path("runs/artifacts/blobs/76") / kOne);
  const auto found = lab.store.find("net");
  CHECK(found.digest == made.digest);
  CHECK(found.files == made.files);
  CHECK(found.metadata == made.metadata);
  CHECK(found.created == made.created);
}

TEST_CASE("artifacts: the digest is the SHA-256 of one line per file") {
  const std::vector<ArtifactFile> files = {{"a", kOne, 3}};
  // printf '7692...31ed 3 a\n' | sha256sum
  CHECK(artifact_digest(files) ==
        "8400f4b98c8ea789a7d0173130a803453bab459d1c51965991992278c365a996");
}

TEST_CASE("artifacts: new content is a new version, existing content is not") {
  SampleStore lab;
  CHECK(lab.publish("one").version == 1);
  CHECK(lab.publish("two", {"best"}).version == 2);
  CHECK(lab.publish("three").version == 3);
  CHECK(lab.store.find("net").version == 3);
  CHECK(lab.store.find("net:latest").version == 3);
  CHECK(lab.store.find("net:best").version == 2);
  CHECK(lab.store.find("net:v1").version == 1);
  CHECK(lab.store.find("net@" + lab.store.find("net:v2").digest.substr(0, 8)).version == 2);
  const auto again = lab.publish("one", {"good"});
  CHECK(again.version == 1);
  CHECK(again.aliases == std::vector<std::string>{"good", "latest"});
  CHECK(lab.store.list().size() == 3);
  CHECK(lab.store.find("net").version == 1);
}

TEST_CASE("artifacts: the same content is stored once, under any name") {
  SampleStore lab;
  write_text(lab.path("a"), "one");
  write_text(lab.path("b"), "one");
  const auto first = lab.store.publish({.name = "first", .source = lab.path("a")});
  const auto second = lab.store.publish(
      {.name = "second", .files = {{"x/b", lab.path("b")}, {"a", lab.path("a")}}});
  CHECK(first.files == std::vector<ArtifactFile>{{"a", kOne, 3}});
  CHECK(second.files == std::vector<ArtifactFile>{{"a", kOne, 3}, {"x/b", kOne, 3}});
  CHECK(std::distance(fs::directory_iterator(lab.path("runs/artifacts/blobs/76")), {}) == 1);
}

TEST_CASE(
    "artifacts: files are copied, or linked if the draft asks for it; the originals are "
    "unchanged") {
  SampleStore lab;
  write_text(lab.path("copied"), "to be copied");
  write_text(lab.path("linked"), "to be linked");
  fs::permissions(lab.path("linked"), fs::perms(0640));
  const auto copied = lab.store.publish({.name = "copied", .source = lab.path("copied")});
  const auto linked = lab.store.publish(
      {.name = "linked", .source = lab.path("linked"), .transfer = ArtifactDraft::Transfer::Link});
  CHECK(inode_of(lab.store.blob(copied.files[0])) != inode_of(lab.path("copied")));
  CHECK((mode_of(lab.store.blob(copied.files[0])) & 0222) == 0);
  CHECK(inode_of(lab.store.blob(linked.files[0])) == inode_of(lab.path("linked")));
  CHECK(mode_of(lab.path("linked")) == 0640);
  write_text(lab.path("copied"), "written again");
  CHECK(lab.store.verify(copied).empty());
  // On another file system a link is not possible.
  const TemporaryDirectory elsewhere;
  const fs::path shm = "/dev/shm";
  const ArtifactStore other(elsewhere / "artifacts");
  const auto far = shm / elsewhere.path().filename();
  const std::shared_ptr<void> removed(nullptr, [&](void*) { fs::remove_all(far); });
  write_text(far / "file", "far away");
  const auto moved = other.publish(
      {.name = "far", .source = far / "file", .transfer = ArtifactDraft::Transfer::Link});
  CHECK(read_file(other.blob(moved.files[0])) == "far away");
}

TEST_CASE("artifacts: get creates a writable directory, or nothing") {
  SampleStore lab;
  const auto made = lab.publish("one");
  lab.store.get(made, lab.path("out/net/"));
  CHECK(read_file(lab.path("out/net/weights.bin")) == "one");
  CHECK(read_file(lab.path("out/net/conf/model.json")) == "{}");
  CHECK((mode_of(lab.path("out/net/weights.bin")) & 0600) == 0600);
  const auto there = "config: " + lab.path("out/net").string() +
                     " already exists; choose a directory that does not exist";
  CHECK(error_of([&] { lab.store.get(made, lab.path("out/net")); }) == there);
  fs::create_symlink(lab.path("nowhere"), lab.path("link"));
  CHECK(error_of([&] { lab.store.get(made, lab.path("link")); }).starts_with("config: "));
  CHECK(fs::is_symlink(lab.path("link")));
  CHECK_FALSE(fs::exists(lab.path("nowhere")));
  auto hostile = made;
  hostile.files[0].path = "../../escaped";
  CHECK(error_of([&] { lab.store.get(hostile, lab.path("out/hostile")); }) ==
        "config: '../../escaped' is not a valid path in an artifact");
  CHECK_FALSE(fs::exists(lab.path("escaped")));
  CHECK(std::distance(fs::directory_iterator(lab.path("out")), {}) == 1);
}

TEST_CASE("artifacts: aliases can be moved and removed, 'latest' moves automatically") {
  SampleStore lab;
  const auto one = lab.publish("one"), two = lab.publish("two");
  lab.store.set_alias(one, "best");
  CHECK(lab.store.find("net:best").version == 1);
  lab.store.set_alias(two, "best");
  CHECK(lab.store.find("net:best").version == 2);
  CHECK(lab.store.find("net:v1").aliases.empty());
  lab.store.remove_alias("net", "best");
  CHECK(error_of([&] { lab.store.find("net:best"); }) ==
        "config: artifact 'net' has no version 'best'; it has v1 to v2 and latest");
  CHECK(error_of([&] { lab.store.set_alias(one, "latest"); }) ==
        "config: the alias 'latest' is maintained automatically: it cannot be set or removed");
  CHECK(error_of([&] { lab.store.remove_alias("net", "latest"); }).starts_with("config: "));
  CHECK(error_of([&] {
          lab.store.set_alias(one, "v7");
        }).starts_with("config: 'v7' is not a valid alias"));
}

TEST_CASE("artifacts: users of a version are recorded once each") {
  SampleStore lab;
  const auto made = lab.publish("one");
  lab.store.record_use(made, "eval-1");
  lab.store.record_use(made, "eval-2");
  lab.store.record_use(made, "eval-1");
  CHECK(lab.store.find("net").used_by == std::vector<std::string>{"eval-1", "eval-2"});
  CHECK(error_of([&] { lab.store.record_use(made, "../x"); }) ==
        "config: '../x' is not a valid run ID");
}

TEST_CASE("artifacts: bad names, paths and sources are Config errors that name them") {
  SampleStore lab;
  write_text(lab.path("file"), "x");
  const auto of_name = [&](const std::string& name) {
    return error_of([&] { lab.store.publish({.name = name, .source = lab.path("file")}); });
  };
  for (const std::string name : {"", ".a", "-a", "a/b", "..", "a:b", "a@b", "a b", "\n"})
    CHECK(of_name(name).find("is not a valid artifact name") != std::string::npos);
  CHECK(of_name(std::string(129, 'a')).starts_with("config: "));
  CHECK(of_name(std::string(128, 'a')) == "no error");
  CHECK(of_name("blobs") == "config: 'blobs' is not a valid artifact name: it is reserved");
  const auto of_path = [&](const std::string& path) {
    return error_of([&] { lab.store.publish({.name = "p", .files = {{path, lab.path("file")}}}); });
  };
  for (const std::string path : {"", "/etc/passwd", "..", "a/../b", "a//b", "./a", "a/", "a\nb",
                                 "\x1b[2J", "\xff", "\xc2\x9b"})
    CHECK(of_path(path).find("is not a valid path in an artifact") != std::string::npos);
  CHECK(of_path(std::string(1025, 'a')).starts_with("config: "));
  CHECK(of_path(std::string(1024, 'a')) == "no error");
  CHECK(of_path("..a") == "no error");
  CHECK(error_of([&] {
          lab.store.publish(
              {.name = "p", .files = {{"a", lab.path("file")}, {"a", lab.path("file")}}});
        }) == "config: 'a' appears twice");
  CHECK(error_of([&] {
          lab.store.publish(
              {.name = "p", .files = {{"a", lab.path("file")}, {"a/b", lab.path("file")}}});
        }).find("'a' is both a file and a directory") != std::string::npos);
  CHECK(error_of([&] { lab.store.publish({.name = "p", .source = lab.path("none")}); }) ==
        "config: " + lab.path("none").string() + " does not exist");
  fs::create_directories(lab.path("empty/dir"));
  CHECK(error_of([&] { lab.store.publish({.name = "p", .source = lab.path("empty")}); }) ==
        "config: artifact 'p' would have no files");
}

TEST_CASE("artifacts: symbolic links, FIFOs and other types are rejected") {
  SampleStore lab;
  const auto model = lab.model("one");
  fs::create_symlink("/etc/passwd", model / "conf/secret");
  const auto publish = [&](const fs::path& source) {
    return error_of([&] { lab.store.publish({.name = "net", .source = source}); });
  };
  CHECK(publish(model).starts_with("config: " + (model / "conf/secret").string() +
                                   " is a symbolic link"));
  CHECK(publish(model / "conf/secret")
            .starts_with("config: " + (model / "conf/secret").string() + " is a symbolic link"));
  fs::remove(model / "conf/secret");
  REQUIRE(::mkfifo((model / "pipe").c_str(), 0600) == 0);
  CHECK(publish(model) == "config: " + (model / "pipe").string() + " is not a regular file");
  fs::remove(model / "pipe");
  CHECK(publish(model) == "no error");
  CHECK(error_of([&] { lab.publish("two"); }) ==
        "config: artifact 'net' is of type 'file', not 'model'");
  CHECK(lab.store.list().size() == 1);
}

TEST_CASE("artifacts: a missing artifact is a Config error that lists existing ones") {
  SampleStore lab;
  CHECK(lab.store.list().empty());
  CHECK(lab.store.gc(false).paths.empty());
  CHECK_FALSE(fs::exists(lab.store.directory()));
  CHECK(error_of([&] {
          lab.store.find("net");
        }).starts_with("config: there is no artifact 'net' in "));
  lab.publish("one");
  CHECK(error_of([&] { lab.store.find("nett"); }).ends_with("did you mean 'net'?"));
  CHECK(error_of([&] { lab.store.find("net:v2"); }) ==
        "config: artifact 'net' has no version 'v2'; it has v1 to v1 and latest");
  CHECK(error_of([&] {
          lab.store.find("net:v99999999999");
        }).starts_with("config: artifact 'net' has"));
  CHECK(error_of([&] { lab.store.find("net@1234567"); }) ==
        "config: net@1234567: expected at least 8 digits of the digest");
  CHECK(error_of([&] { lab.store.find("net@12345678"); }) ==
        "config: artifact 'net' has no version with digest 12345678");
  CHECK(error_of([&] {
          lab.store.find("../net");
        }).starts_with("config: '../net' is not a valid artifact name"));
}

TEST_CASE("artifacts: a file of many megabytes is copied and verified") {
  SampleStore lab;
  std::string big((5u << 20) + 17, '\0');
  std::iota(big.begin(), big.end(), '\0');
  write_text(lab.path("big"), big);
  const auto made = lab.store.publish({.name = "big", .source = lab.path("big")});
  CHECK(made.files[0].size == big.size());
  lab.store.get(made, lab.path("out"));
  CHECK(read_file(lab.path("out/big")) == big);
}

TEST_CASE("artifacts: concurrent publishers: every version exists once") {
  SampleStore lab;
  constexpr int kThreads = 4, kEach = 6;
  std::vector<std::string> errors(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        const auto file = lab.path("file-" + std::to_string(thread));
        const ArtifactStore store(lab.store.directory());
        errors[static_cast<size_t>(thread)] = error_of([&] {
          for (int i = 0; i < kEach; ++i) {
            write_text(file,
                       std::to_string(i) + (i % 2 == 0 ? "" : " of " + std::to_string(thread)));
            store.publish({.name = "shared", .files = {{"file", file}}});
          }
        });
      });
  }
  CHECK(errors == std::vector<std::string>(kThreads, "no error"));
  const auto all = lab.store.list();
  CHECK(all.size() == kEach / 2 + kEach / 2 * kThreads);  // the even ones are the same for all
  std::set<std::string> digests;
  for (size_t i = 0; i < all.size(); ++i) {
    CHECK(all[i].version == static_cast<int>(i) + 1);
    digests.insert(all[i].digest);
    CHECK(lab.store.verify(all[i]).empty());
  }
  CHECK(digests.size() == all.size());
  CHECK(lab.store.gc(true).paths.empty());
}
