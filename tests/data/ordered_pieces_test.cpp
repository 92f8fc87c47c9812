#include "formats/store/ordered_pieces.h"

#include <catch2/catch.hpp>
#include <latch>
#include <set>
#include <thread>

namespace lockstep::formats {
namespace {

using std::chrono::milliseconds;

TEST_CASE("ordered pieces: work for which no thread has time is run by its caller") {
  OrderedPieces pieces(1);
  std::latch has_begun(1), may_end(1);
  std::jthread busy([&] {
    pieces.run({.name = "busy", .count = 1, .order = 1, .idle = std::chrono::hours(1)},
               [&](int64_t) {
                 has_begun.count_down();
                 may_end.wait();
               });
  });
  has_begun.wait();  // the only thread is occupied until may_end
  std::set<int64_t> run;
  pieces.run({.name = "next", .count = 5, .order = 2, .idle = milliseconds(1)},
             [&](int64_t number) { run.insert(number); });
  CHECK(run == std::set<int64_t>{0, 1, 2, 3, 4});
  may_end.count_down();
}

TEST_CASE("ordered pieces: those of slow threads are waited for") {
  OrderedPieces pieces(1);
  const auto caller = std::this_thread::get_id();
  std::set<int64_t> run;
  pieces.run({.name = "all", .count = 3, .order = 1, .idle = std::chrono::hours(1)},
             [&](int64_t number) {
               CHECK(std::this_thread::get_id() != caller);
               run.insert(number);
             });
  CHECK(run == std::set<int64_t>{0, 1, 2});
}

}  // namespace
}  // namespace lockstep::formats
