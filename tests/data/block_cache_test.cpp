#include "data/block_cache.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <barrier>
#include <catch2/catch.hpp>
#include <exception>
#include <thread>
#include <vector>

#include "formats/table/table_encoding.h"
#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

formats::EncodedRows rows_of(size_t block) { return {.rows = block + 1}; }
formats::EncodedRows load_rows(size_t block, SharedWork&) { return rows_of(block); }

// Returns what each of `threads` threads reads when all read the same blocks several times, in
// lockstep.
std::vector<std::vector<size_t>> read_by(BlockCache<formats::EncodedRows>& cache, size_t threads,
                                         size_t blocks) {
  std::vector<std::vector<size_t>> read(threads);
  std::barrier together(static_cast<std::ptrdiff_t>(threads));
  {
    std::vector<std::jthread> all;
    for (size_t t = 0; t < threads; ++t)
      all.emplace_back([&, t] {
        for (size_t block = 0; block < blocks; ++block)
          for (int again = 0; again < 3; ++again) {
            cache.use(block, 1,
                      [&](const formats::EncodedRows& rows) { read[t].push_back(rows.rows); });
            together.arrive_and_wait();
          }
      });
  }
  return read;
}

TEST_CASE("block cache: a single thread holds one block and loads each once") {
  BlockCache<formats::EncodedRows> cache(load_rows);
  const auto read = read_by(cache, 1, 20);
  CHECK(cache.loads() == 20);
  CHECK(cache.max_blocks() == 1);
  CHECK(read[0].size() == 60);
  CHECK(read[0].back() == 20);
}

TEST_CASE("block cache: threads that read the same block load it once") {
  std::atomic<int> inside = 0, most_inside = 0;
  BlockCache<formats::EncodedRows> cache([&](size_t block, SharedWork&) {
    most_inside = std::max(most_inside.load(), ++inside);
    const auto rows = rows_of(block);
    --inside;
    return rows;
  });
  const auto read = read_by(cache, 4, 50);
  CHECK(cache.loads() == 50);
  CHECK(most_inside == 1);
  CHECK(cache.max_blocks() <= 4);
  for (const auto& one : read) CHECK(one == read[0]);
}

TEST_CASE("block cache: it never holds more blocks than threads") {
  BlockCache<formats::EncodedRows> cache(load_rows);
  std::atomic<bool> wrong = false;
  {
    std::vector<std::jthread> all;
    for (size_t t = 0; t < 3; ++t)
      all.emplace_back([&, t] {
        for (size_t i = 0; i < 2000; ++i) {
          const auto block = (i * (t + 3)) % 17;
          cache.use(block, 1, [&](const formats::EncodedRows& rows) {
            if (rows.rows != block + 1) wrong = true;
          });
        }
      });
  }
  CHECK_FALSE(wrong);
  CHECK(cache.max_blocks() <= 3);
}

TEST_CASE("block cache: a thread that waits for a block helps to load it") {
  // The two pieces wait for each other: a single thread would never finish.
  std::barrier both(2);
  BlockCache<formats::EncodedRows> cache([&](size_t block, SharedWork& work) {
    work.do_all(2, [&](size_t) { both.arrive_and_wait(); });
    return rows_of(block);
  });
  const auto read = read_by(cache, 2, 20);
  CHECK(cache.loads() == 20);
  CHECK(read[0] == read[1]);
}

TEST_CASE("block cache: an exception on a helping thread is rethrown by the loading thread") {
  std::barrier both(2);
  std::atomic<int> tries = 0;
  BlockCache<formats::EncodedRows> cache([&](size_t block, SharedWork& work) {
    ++tries;
    work.do_all(2, [&](size_t piece) {
      both.arrive_and_wait();
      throw config_error(piece == 0 ? "the first" : "the second");
    });
    return rows_of(block);
  });
  std::array<std::string, 2> errors;
  {
    std::vector<std::jthread> all;
    for (auto& error : errors)
      all.emplace_back([&] { error = error_of([&] { cache.use(1, 1, [](const auto&) {}); }); });
  }
  CHECK(errors == std::array<std::string, 2>{"config: the first", "config: the first"});
  CHECK(tries == 1);
}

TEST_CASE("shared work: every piece is done exactly once, by any thread") {
  SharedWork work;
  std::vector<std::jthread> helpers;
  for (int i = 0; i < 3; ++i) helpers.emplace_back([&] { work.help(); });
  for (size_t count = 0; count < 300; ++count) {
    std::vector<std::atomic<int>> times(count);
    work.do_all(count, [&](size_t piece) { ++times[piece]; });
    REQUIRE(std::ranges::all_of(times, [](const auto& n) { return n == 1; }));
  }
  work.close();
}

TEST_CASE("block cache: a block that failed to load is retried") {
  int attempts = 0;
  BlockCache<formats::EncodedRows> cache([&](size_t block, SharedWork&) {
    if (++attempts == 1) throw environment_error("disk on fire");
    return rows_of(block);
  });
  const auto nothing = [](const formats::EncodedRows&) {};
  CHECK(error_of([&] { cache.use(3, 1, nothing); }) == "environment: disk on fire");
  CHECK(error_of([&] { cache.use(3, 1, nothing); }) == "no error");
  CHECK(error_of([&] {
          cache.use(3, 1, [](const formats::EncodedRows&) { throw config_error("reader"); });
        }) == "config: reader");
  CHECK(error_of([&] { cache.use(4, 1, nothing); }) == "no error");
  CHECK(cache.max_blocks() == 1);
}

TEST_CASE("block cache: a corrupt block is not retried") {
  BlockCache<formats::EncodedRows> cache([](size_t block, SharedWork&) {
    if (block == 3) throw config_error("corrupt");
    return rows_of(block);
  });
  const auto nothing = [](const formats::EncodedRows&) {};
  for (int i = 0; i < 5; ++i)
    CHECK(error_of([&] { cache.use(3, 1, nothing); }) == "config: corrupt");
  CHECK(cache.loads() == 1);
  CHECK(error_of([&] { cache.use(4, 1, nothing); }) == "no error");
}

}  // namespace
}  // namespace lockstep::data
