#include <catch2/catch.hpp>
#include <thread>

#include "tests/tracking/runs/lab_with_runs.h"
#include "tracking/runs/run_tags.h"

using namespace lockstep;
using namespace lockstep::tracking;

TEST_CASE("runs tag: added, removed, shown, and searched for") {
  LabWithRuns lab;
  lab.add("mnist-1");
  lab.add("mnist-2", 1700000001);
  CHECK(lab({"tag", "mnist-1", "+good", "+baseline", "--note", "the one of the paper"}) ==
        "mnist-1: baseline, good; note: the one of the paper\n");
  CHECK(lab({"tag", "mnist-1", "-good", "+sweep/3"}) ==
        "mnist-1: baseline, sweep/3; note: the one of the paper\n");
  CHECK(lab.json({"tag", "mnist-2", "+good"}) ==
        Json{{"id", "mnist-2"}, {"tags", {"good"}}, {"note", ""}});
  const auto list = lab.json({"list"});
  CHECK(list[0]["tags"] == Json{"good"});
  CHECK_FALSE(list[0].contains("note"));
  CHECK(list[1]["tags"] == Json{"baseline", "sweep/3"});
  CHECK(list[1]["note"] == "the one of the paper");
  CHECK(lab.json({"show", "mnist-1"})["tags"] == Json{"baseline", "sweep/3"});
  CHECK(lab({"show", "mnist-1"})
            .find("\ntags       baseline, sweep/3; note: the one of the paper\n") !=
        std::string::npos);
  CHECK(lab({"list"}).find("  TAGS\n") != std::string::npos);
  CHECK(lab({"list"}).find("  baseline,sweep/3\n") != std::string::npos);
  const auto found = lab.json({"list", "--tag", "baseline"});
  REQUIRE(found.size() == 1);
  CHECK(found[0]["id"] == "mnist-1");
  CHECK(lab({"list", "--tag", "none"}) == "no run has the tag 'none'\n");
  CHECK(lab({"tag", "mnist-1", "--note", "", "-baseline", "-sweep/3"}) == "mnist-1: no tags\n");
  CHECK(lab({"tag", "mnist-2"}) == "mnist-2: good\n");
}

TEST_CASE("runs tag: a tag applies to the whole job") {
  LabWithRuns lab;
  lab.add_all_ranks("job");
  CHECK(lab({"tag", "job-rank-1", "+x"}) == "job: x\n");
  for (const auto& entry : lab.json({"list"})) CHECK(entry["tags"] == Json{"x"});
}

TEST_CASE("runs tag: bad tags and notes are Config errors, and change nothing") {
  LabWithRuns lab;
  lab.add("a");
  lab({"tag", "a", "+good"});
  CHECK(lab.error_of({"tag", "a", "+new", "+no way"}) ==
        "config: 'no way' is not a valid tag: expected 1 to 64 of A-Z a-z 0-9 . _ : / = -, "
        "starting with a letter or "
        "digit");
  CHECK(lab.error_of({"tag", "a", "+"}).starts_with("config: '' is not a valid tag"));
  CHECK(lab.error_of({"tag", "a", "+" + std::string(65, 'x')}).starts_with("config: "));
  CHECK(lab.error_of({"tag", "a", "-bad"}) == "config: the run has no tag 'bad'; it has good");
  CHECK(lab.error_of({"tag", "a", "--note", "\xff"}) == "config: the note is not UTF-8");
  CHECK(lab.error_of({"tag", "a", "--note", std::string(4097, 'x')}) ==
        "config: the note has 4097 bytes; at most 4096 are allowed");
  CHECK(lab.error_of({"tag", "a", "b"}) ==
        "config: lockstep runs tag: unexpected argument 'b'; tags begin with + or -");
  CHECK(lab({"tag", "a"}) == "a: good\n");
  CHECK(lab({"tag", "a", "--note", "-2 is\nodd"}) == "a: good; note: -2 is\\nodd\n");
}

TEST_CASE("runs tag: a corrupt tags.json is a note in the list and is not overwritten") {
  LabWithRuns lab;
  lab.add("a");
  for (const std::string text :
       {"{", "[]", R"({"tags": [1], "note": ""})", R"({"tags": ["\u001b"], "note": ""})"}) {
    write_file_durably(lab / "a/tags.json", text);
    CHECK(lab.json({"list"})[0]["notes"] == Json{"tags.json is corrupt: repair or remove it"});
    CHECK(lab({"show", "a"}).ends_with("note: tags.json is corrupt: repair or remove it\n"));
    CHECK(lab.error_of({"tag", "a", "+x"}) ==
          "environment: " + (lab / "a").string() + ": tags.json is corrupt: repair or remove it");
    CHECK(read_file(lab / "a/tags.json") == text);
  }
}

TEST_CASE("runs tag: concurrent changes are all kept") {
  LabWithRuns lab;
  lab.add("a");
  constexpr int kThreads = 4;
  std::vector<std::string> errors(kThreads);
  {
    std::vector<std::jthread> threads;
    for (int thread = 0; thread < kThreads; ++thread)
      threads.emplace_back([&, thread] {
        try {
          for (int i = 0; i < 5; ++i)
            change_run_tags(lab / "a", {"+t" + std::to_string(thread) + std::to_string(i)}, {});
        } catch (const Error& error) {
          errors[static_cast<size_t>(thread)] = error.what();
        }
      });
  }
  CHECK(errors == std::vector<std::string>(kThreads));
  CHECK(read_run_tags(lab / "a").tags.size() == 20);
}
