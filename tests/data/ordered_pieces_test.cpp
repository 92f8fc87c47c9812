#include "formats/store/ordered_pieces.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <latch>
#include <set>
#include <thread>
#include <vector>

namespace lockstep::formats {
namespace {

using std::chrono::milliseconds;

TEST_CASE("ordered pieces: work for which no thread has time is run by its caller") {
  OrderedPieces pieces(1);
  std::latch has_begun(1), may_end(1);
  std::jthread busy([&] {
    pieces.run({.name = "busy", .count = 1, .order = 1, .idle = std::chrono::hours(1)},
               [&](int64_t, int64_t) {
                 has_begun.count_down();
                 may_end.wait();
               });
  });
  has_begun.wait();  // the only thread is occupied until may_end
  std::set<int64_t> run;
  pieces.run({.name = "next", .count = 5, .order = 2, .idle = milliseconds(1)},
             [&](int64_t begin, int64_t) { run.insert(begin); });
  CHECK(run == std::set<int64_t>{0, 1, 2, 3, 4});
  may_end.count_down();
}

TEST_CASE("ordered pieces: those of slow threads are waited for") {
  OrderedPieces pieces(1);
  const auto caller = std::this_thread::get_id();
  std::set<int64_t> run;
  pieces.run({.name = "all", .count = 3, .order = 1, .idle = std::chrono::hours(1)},
             [&](int64_t begin, int64_t) {
               CHECK(std::this_thread::get_id() != caller);
               run.insert(begin);
             });
  CHECK(run == std::set<int64_t>{0, 1, 2});
}

TEST_CASE("ordered pieces: of changing sizes, with a short rest in the last one") {
  OrderedPieces pieces(1);
  using Units = std::pair<int64_t, int64_t>;
  const auto pieces_of = [&](int64_t count, std::vector<int64_t> sizes) {
    size_t next = 0;
    std::vector<Units> run;
    pieces.run({.name = "units",
                .count = count,
                .order = 1,
                .piece_units = [&] { return sizes[std::min(next++, sizes.size() - 1)]; },
                .idle = std::chrono::hours(1)},
               [&](int64_t begin, int64_t end) { run.emplace_back(begin, end); });
    return run;
  };
  CHECK(pieces_of(10, {1, 2, 4}) == std::vector<Units>{{0, 1}, {1, 3}, {3, 7}, {7, 10}});
  CHECK(pieces_of(9, {4}) == std::vector<Units>{{0, 4}, {4, 9}});
  CHECK(pieces_of(10, {4}) == std::vector<Units>{{0, 4}, {4, 8}, {8, 10}});
  CHECK(pieces_of(3, {8}) == std::vector<Units>{{0, 3}});
  CHECK(pieces_of(0, {8}).empty());
}

}  // namespace
}  // namespace lockstep::formats
