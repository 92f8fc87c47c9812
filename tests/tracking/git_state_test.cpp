#include "tracking/runs/git_state.h"

#include <catch2/catch.hpp>

#include "core/system/durable_file.h"
#include "tests/temporary_directory.h"

using namespace lockstep;
using namespace lockstep::tracking;

namespace {

const std::string kCommit = "0123456789abcdef0123456789abcdef01234567";
const std::string kOther = "fedcba9876543210fedcba9876543210fedcba98";

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  write_file_durably(path, text);
}

}  // namespace

TEST_CASE("git state: the commit and branch of a directory's working tree") {
  const TemporaryDirectory place;
  const auto& root = place.path();
  write(root / ".git/HEAD", "ref: refs/heads/feature/one\n");
  const auto begun = read_git_state(root);
  REQUIRE(begun);
  CHECK(begun->branch == "feature/one");
  CHECK(begun->commit.empty());
  write(root / ".git/refs/heads/feature/one", kCommit + "\n");
  std::filesystem::create_directories(root / "deep/inside");
  CHECK(read_git_state(root / "deep/inside")->commit == kCommit);
}

TEST_CASE("git state: packed refs, no branch, and a second working tree") {
  const TemporaryDirectory place;
  const auto& root = place.path();
  write(root / "main/.git/HEAD", "ref: refs/heads/main\n");
  write(root / "main/.git/packed-refs", "# pack-refs with: peeled\n" + kOther +
                                            " refs/heads/not-main\n" + kCommit +
                                            " refs/heads/main\n");
  CHECK(read_git_state(root / "main")->commit == kCommit);
  write(root / "main/.git/worktrees/second/HEAD", "ref: refs/heads/not-main\n");
  write(root / "main/.git/worktrees/second/commondir", "../..\n");
  write(root / "second/.git", "gitdir: ../main/.git/worktrees/second\n");
  const auto second = read_git_state(root / "second");
  REQUIRE(second);
  CHECK(second->branch == "not-main");
  CHECK(second->commit == kOther);
  write(root / "main/.git/HEAD", kOther + "\n");
  const auto detached = read_git_state(root / "main");
  REQUIRE(detached);
  CHECK(detached->branch.empty());
  CHECK(detached->commit == kOther);
}

TEST_CASE("git state: a directory outside of a working tree, from within one") {
  const TemporaryDirectory place;
  const auto& root = place.path();
  write(root / "tree/.git/HEAD", kCommit + "\n");
  std::filesystem::create_directories(root / "outside");
  const auto before = std::filesystem::current_path();
  std::filesystem::current_path(root / "tree");
  CHECK(!read_git_state(root / "outside"));
  std::filesystem::current_path(before);
}

TEST_CASE("git state: files that git did not write are ignored") {
  const TemporaryDirectory place;
  const auto& root = place.path();
  write(root / "secret", "not a commit\n");
  for (const auto* head : {"ref: refs/heads/../../../secret\n", "garbage\n", ""}) {
    write(root / ".git/HEAD", head);
    CHECK(!read_git_state(root));
  }
  write(root / ".git/HEAD", "ref: refs/heads/main\n");
  write(root / ".git/refs/heads/main", "not a commit\n");
  CHECK(!read_git_state(root));
}
