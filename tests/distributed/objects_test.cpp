#include "distributed/objects.h"

#include <catch2/catch.hpp>

#include "distributed/counters.h"
#include "tests/distributed/run_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;
using nlohmann::json;

namespace {

json object_of(int rank) {
  return {{"rank", rank},
          {"text", std::string(static_cast<size_t>(rank) * 1000, 'x')},
          {"list", {1.5, nullptr, true}}};
}

}  // namespace

TEST_CASE("objects: all_gather_object returns values of different sizes on every rank") {
  for (const int world_size : {1, 2, 3}) {
    const auto results = run_ranks(world_size, [](World& world) {
      return all_gather_object(world, object_of(world.rank()), "objects");
    });
    for (const auto& values : results) {
      REQUIRE(values.size() == static_cast<size_t>(world_size));
      for (int rank = 0; rank < world_size; ++rank)
        CHECK(values[static_cast<size_t>(rank)] == object_of(rank));
    }
  }
}

TEST_CASE("objects: gather_object returns values on the root only") {
  const auto results = run_ranks(
      3, [](World& world) { return gather_object(world, object_of(world.rank()), 2, "objects"); });
  CHECK(results[0].empty());
  CHECK(results[1].empty());
  CHECK(results[2] == std::vector<json>{object_of(0), object_of(1), object_of(2)});
}

TEST_CASE("objects: broadcast_object sends the root's value") {
  const auto results = run_ranks(3, [](World& world) {
    return broadcast_object(world, world.rank() == 1 ? object_of(7) : json(), 1, "value");
  });
  for (const auto& result : results) CHECK(result == object_of(7));
}

TEST_CASE("objects: binary strings and non-finite numbers are preserved") {
  const auto results = run_ranks(2, [](World& world) {
    const json value = {{"bytes", json::binary({0, 255, 10})},
                        {"inf", std::numeric_limits<double>::infinity()}};
    return broadcast_object(world, value, 0, "binary");
  });
  const std::vector<uint8_t>& bytes = results[1]["bytes"].get_binary();
  CHECK(bytes == std::vector<uint8_t>{0, 255, 10});
  CHECK(results[1]["inf"].get<double>() == std::numeric_limits<double>::infinity());
}

TEST_CASE("counters: sums and counts are merged by name, so that means are weighted by samples") {
  const auto results = run_ranks(3, [](World& world) {
    const double count = world.rank() + 1;
    return merge_counters(world, {{"loss", {count * 2.0, count}}, {"accuracy", {0.5, count}}})
        .at("loss");
  });
  for (const auto& loss : results) {
    CHECK(loss.count == 6);
    CHECK(loss.mean() == 2.0);
  }
}

TEST_CASE("counters: more names than fit into one piece, and none") {
  const auto results = run_ranks(2, [](World& world) {
    Counters counters;
    for (int i = 0; i < 200; ++i)
      counters["metric " + std::to_string(i)] = {static_cast<double>(i), 1};
    const auto merged = merge_counters(world, counters);
    return std::pair{merged.at("metric 199").sum, merge_counters(world, {}).size()};
  });
  for (const auto& [sum, none] : results) {
    CHECK(sum == 2 * 199);
    CHECK(none == 0);
  }
}

TEST_CASE("counters: names that differ between ranks are an error with the difference") {
  const RendezvousDirectory directory;
  const auto errors = run_threads(2, [&](int rank) {
    const auto connected = World::connect(rank_options(rank, 2, directory));
    auto& world = *connected;
    Counters counters = {{"loss", {1, 1}}};
    if (rank == 1) counters["accuracy"] = {1, 1};
    merge_counters(world, counters);
  });
  for (const auto& error : errors)
    CHECK_THAT(text_of(error),
               Catch::Contains("'accuracy' is reported on rank 1 but missing on rank 0"));
}
