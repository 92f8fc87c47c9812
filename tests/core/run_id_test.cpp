#include "core/run_id.h"

#include <catch2/catch.hpp>
#include <set>

#include "tests/core/matches.h"

using namespace lockstep;

TEST_CASE("run id: name, UTC time and a random part") {
  CHECK(matches(new_run_id("mnist"), "mnist-20[0-9]{6}-[0-9]{6}-[0-9a-f]{6}"));
}

TEST_CASE("run id: any name yields an id that is a valid directory name") {
  for (const std::string name :
       {"", ".", "..", "../../etc", ".hidden", "-rf", "a b/c\\d", "größe", "a\nb"}) {
    const auto id = new_run_id(name);
    INFO(id);
    CHECK(is_run_id(id));
    CHECK(id.front() != '.');
    CHECK(id.front() != '-');
  }
  CHECK(is_run_id(new_run_id(std::string(10'000, 'x'))));
  CHECK(is_run_id(new_run_id(std::string("a\0b", 3))));
  CHECK(new_run_id("lr 0.1").starts_with("lr-0.1-20"));
  CHECK(new_run_id("Größe-模型-🚀").starts_with("Gr-e-20"));
  CHECK(new_run_id("模型").starts_with("run-20"));
  CHECK(new_run_id("a--b").starts_with("a--b-20"));
}

TEST_CASE("run id: runs that start in the same second differ") {
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) ids.insert(new_run_id("sweep"));
  CHECK(ids.size() == 20);
}

TEST_CASE("run id: text that could escape the directory of runs is not an id") {
  for (const std::string text : {"", ".", "..", ".x", "a/b", "/a", "a b", "a\n", "a\\b", "größe"}) {
    INFO(text);
    CHECK_FALSE(is_run_id(text));
  }
  CHECK_FALSE(is_run_id(std::string("a\0", 2)));
  CHECK_FALSE(is_run_id(std::string(201, 'a')));
  CHECK(is_run_id(std::string(200, 'a')));
  CHECK(is_run_id("mnist-20261121-060309-4f2a"));
  CHECK(is_run_id("a..b"));
}

TEST_CASE("run id: the end of a path is suggested") {
  const std::string expected =
      "expected letters, digits, '_', '.' and '-', at most 200 characters, not beginning with '.'";
  for (const std::string path : {"runs/a-1", "/x/runs/a-1", "a-1//"})
    CHECK(expected_run_id(path) == expected + "; did you mean 'a-1'?");
  for (const std::string text : {"", "/", "runs/..", "a b"})
    CHECK(expected_run_id(text) == expected);
}
