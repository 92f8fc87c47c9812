#include "distributed/shm/group.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <numeric>

#include "tests/distributed/shm/host_ranks.h"

using namespace lockstep;
using namespace lockstep::distributed;
using namespace lockstep::distributed::shm;

namespace {

// Empty, single elements, odd lengths, exactly one window, and more than two windows.
const std::vector<size_t> kCounts = {0, 1, 3, 1021, 262144, 600001};

template <class T>
constexpr ElementType kTypeOf = ElementType::Bytes;
template <>
constexpr ElementType kTypeOf<float> = ElementType::Float32;
template <>
constexpr ElementType kTypeOf<int64_t> = ElementType::Int64;

template <class T>
std::vector<T> values_of(int rank, size_t count) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = static_cast<T>((i * 2654435761u + static_cast<size_t>(rank) * 40503u) % 1000) /
                static_cast<T>(7);
  return values;
}

template <class T>
Array array_of(std::vector<T>& values) {
  return {reinterpret_cast<std::byte*>(values.data()), values.size(), kTypeOf<T>};
}

// The sum in the documented order, one element at a time.
std::vector<float> expected_sum(int num_ranks, size_t count) {
  const SumOrder order(num_ranks, count, sizeof(float));
  std::vector<std::vector<float>> sources;
  for (int rank = 0; rank < num_ranks; ++rank) sources.push_back(values_of<float>(rank, count));
  std::vector<float> sum(count);
  order.for_each_chunk(0, count, [&](int chunk, size_t begin, size_t end) {
    for (size_t i = begin; i < end; ++i) {
      sum[i] = sources[static_cast<size_t>(order.rank_at(chunk, 0))][i];
      for (int k = 1; k < num_ranks; ++k)
        sum[i] += sources[static_cast<size_t>(order.rank_at(chunk, k))][i];
    }
  });
  return sum;
}

}  // namespace

TEST_CASE("group: all_reduce sums in the documented order, bit-identical on every rank") {
  for (const int num_ranks : {1, 2, 3, 4, 5})
    for (const auto count : kCounts) {
      std::vector<std::vector<float>> results(static_cast<size_t>(num_ranks));
      run_group(num_ranks, [&](Group& group) {
        auto values = values_of<float>(group.rank(), count);
        group.all_reduce(array_of(values), Reduction::Sum, soon());
        results[static_cast<size_t>(group.rank())] = values;
      });
      const auto expected = expected_sum(num_ranks, count);
      for (const auto& result : results)
        CHECK((count == 0 || std::memcmp(result.data(), expected.data(), 4 * count) == 0));
    }
}

TEST_CASE("group: average_parts is bit-identical to one array, at any part boundaries") {
  for (const int num_ranks : {2, 3, 4, 5}) {
    const size_t count = 600'001;
    std::vector<std::vector<float>> results(static_cast<size_t>(num_ranks));
    run_group(num_ranks, [&](Group& group) {
      auto values = values_of<float>(group.rank(), count);
      std::vector<Array> parts;
      size_t begin = 0;
      for (const size_t size :
           {size_t{1}, size_t{0}, size_t{262'143}, size_t{7}, size_t{337'850}}) {
        parts.push_back(
            {reinterpret_cast<std::byte*>(values.data() + begin), size, ElementType::Float32});
        begin += size;
      }
      group.average_parts(parts, begin, {.factor = 0.5}, soon());
      results[static_cast<size_t>(group.rank())] = values;
    });
    auto expected = expected_sum(num_ranks, count);
    for (auto& value : expected) value *= 0.5f;  // exact, so it may come after the sum
    for (const auto& result : results) CHECK(result == expected);
  }
}

TEST_CASE("group: arrays in a symmetric buffer are reduced in place, bit-identically") {
  constexpr size_t kOffset = 192;
  for (const int num_ranks : {1, 2, 3, 4, 5})
    for (const size_t count : {size_t{65'536}, size_t{100'003}, size_t{600'001}}) {
      std::vector<std::vector<float>> results(static_cast<size_t>(num_ranks));
      run_group(num_ranks, [&](Group& group) {
        const auto buffer = group.allocate(kOffset + 4 * count, soon());
        check(buffer != nullptr, "threads of one process share memory");
        auto* const data = buffer->data() + kOffset;
        auto values = values_of<float>(group.rank(), count);
        std::memcpy(data, values.data(), 4 * count);
        group.all_reduce({data, count, ElementType::Float32}, Reduction::Sum, soon());
        std::memcpy(values.data(), data, 4 * count);
        results[static_cast<size_t>(group.rank())] = values;
      });
      const auto expected = expected_sum(num_ranks, count);
      for (const auto& result : results)
        CHECK(std::memcmp(result.data(), expected.data(), 4 * count) == 0);
    }
}

TEST_CASE("group: arrays at different offsets on different ranks are reduced correctly") {
  constexpr size_t kCount = 100'003;
  std::vector<std::vector<float>> results(3);
  run_group(3, [&](Group& group) {
    const auto buffer = group.allocate(2 * 4 * kCount, soon());
    auto values = values_of<float>(group.rank(), kCount);
    auto array = array_of(values);
    if (group.rank() != 1)  // rank 0 at the start, rank 2 after it, rank 1 outside the buffer
      array.data = buffer->data() + (group.rank() == 2 ? 4 * kCount : 0);
    std::memmove(array.data, values.data(), 4 * kCount);
    group.all_reduce(array, Reduction::Sum, soon());
    std::memmove(values.data(), array.data, 4 * kCount);
    results[static_cast<size_t>(group.rank())] = values;
  });
  for (const auto& result : results) CHECK(result == expected_sum(3, kCount));
}

TEST_CASE("group: average_in_buffer is bit-identical to average_parts") {
  const std::vector<size_t> counts = {7, 300'001, 64};
  using Case = std::pair<int, SumKind>;
  for (const auto& [ranks, sum] :
       {Case{2, SumKind::Ring}, Case{3, SumKind::Ring}, Case{5, SumKind::Ring},
        Case{2, SumKind::Tree}, Case{4, SumKind::Tree}})
    for (const double factor : {1.0 / ranks, 0.3}) {
      const auto num_ranks = ranks;
      const auto kind = sum;
      std::atomic<int> wrong = 0;
      run_group(num_ranks, [&](Group& group) {
        const auto buffer = group.allocate(size_t{2} << 20, soon());
        std::vector<Group::BufferRange> ranges;
        std::vector<std::vector<float>> elsewhere;
        size_t offset = 0;
        for (const auto count : counts) {
          ranges.push_back({offset, count, ElementType::Float32});
          elsewhere.push_back(values_of<float>(group.rank(), count));
          std::memcpy(buffer->data() + offset, elsewhere.back().data(), 4 * count);
          const auto part = array_of(elsewhere.back());
          group.average_parts({&part, 1}, count, {factor, kind}, soon());
          offset += 4 * count + 4;
        }
        group.average_in_buffer(*buffer, ranges, {factor, kind}, soon());
        for (size_t i = 0; i < counts.size(); ++i)
          wrong += std::memcmp(buffer->data() + ranges[i].offset, elsewhere[i].data(),
                               4 * counts[i]) != 0;
      });
      CHECK(wrong == 0);
    }
}

TEST_CASE("group: an allocation that fails on one rank fails on all, and the group stays usable") {
  std::atomic<int> wrong = 0;
  run_group(3, [&](Group& group) {
    const size_t none = 0;  // the kernel refuses to reserve it
    wrong += group.allocate(group.rank() == 1 ? none : size_t{1} << 20, soon()) != nullptr;
    auto values = values_of<float>(group.rank(), 600'001);
    group.all_reduce(array_of(values), Reduction::Sum, soon());
    wrong += values != expected_sum(3, 600'001);
  });
  CHECK(wrong == 0);
}

TEST_CASE("group: reduce changes only the root") {
  for (const auto count : kCounts) {
    std::vector<std::vector<float>> results(3);
    run_group(3, [&](Group& group) {
      auto values = values_of<float>(group.rank(), count);
      group.reduce(array_of(values), Reduction::Sum, 1, soon());
      results[static_cast<size_t>(group.rank())] = values;
    });
    CHECK(results[0] == values_of<float>(0, count));
    CHECK(results[1] == expected_sum(3, count));
    CHECK(results[2] == values_of<float>(2, count));
  }
}

TEST_CASE("group: broadcast, all_gather, gather and scatter move arrays unchanged") {
  for (const auto count : kCounts) {
    std::atomic<int> wrong = 0;
    run_group(3, [&](Group& group) {
      const auto rank = group.rank();
      auto received = values_of<int64_t>(rank, count);
      group.broadcast(array_of(received), 2, soon());
      wrong += received != values_of<int64_t>(2, count);

      auto own = values_of<int64_t>(rank, count);
      std::array<std::vector<int64_t>, 3> all, parts;
      std::vector<std::byte*> out;
      std::vector<const std::byte*> in;
      for (int other = 0; other < 3; ++other) {
        const auto i = static_cast<size_t>(other);
        all[i].resize(count);
        parts[i] = values_of<int64_t>(10 + other, count);
        out.push_back(reinterpret_cast<std::byte*>(all[i].data()));
        in.push_back(reinterpret_cast<const std::byte*>(parts[i].data()));
      }
      group.all_gather(array_of(own), out, soon());
      for (int other = 0; other < 3; ++other)
        wrong += all[static_cast<size_t>(other)] != values_of<int64_t>(other, count);

      for (auto& part : all) std::fill(part.begin(), part.end(), -1);
      const bool is_root = rank == 1;
      group.gather(array_of(own), is_root ? std::span(out) : std::span<std::byte*>(), 1, soon());
      for (int other = 0; other < 3; ++other)
        wrong += all[static_cast<size_t>(other)] !=
                 (is_root ? values_of<int64_t>(other, count) : std::vector<int64_t>(count, -1));

      group.scatter(is_root ? std::span(in) : std::span<const std::byte*>(), array_of(own), 1,
                    soon());
      wrong += own != values_of<int64_t>(10 + rank, count);
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("group: reduce_scatter gives each rank its part of the sum") {
  for (const auto count : kCounts) {
    std::atomic<int> wrong = 0;
    run_group(3, [&](Group& group) {
      std::array<std::vector<int64_t>, 3> parts;
      std::vector<const std::byte*> in;
      for (int part = 0; part < 3; ++part) {
        parts[static_cast<size_t>(part)] = values_of<int64_t>(group.rank() * 10 + part, count);
        in.push_back(reinterpret_cast<const std::byte*>(parts[static_cast<size_t>(part)].data()));
      }
      std::vector<int64_t> own(count);
      group.reduce_scatter(in, array_of(own), Reduction::Sum, soon());
      std::vector<int64_t> expected(count);
      for (int rank = 0; rank < 3; ++rank) {
        const auto values = values_of<int64_t>(rank * 10 + group.rank(), count);
        for (size_t i = 0; i < count; ++i) expected[i] += values[i];
      }
      wrong += own != expected;
    });
    CHECK(wrong == 0);
  }
}

TEST_CASE("group: thousands of consecutive collectives of varying size, with ranks out of step") {
  std::atomic<int> wrong = 0;
  run_group(3, [&](Group& group) {
    int64_t busy = 0;
    for (int i = 0; i < 3000; ++i) {
      for (int k = 0; k < (i * (group.rank() + 1)) % 97; ++k) busy += k * i;
      std::vector<int64_t> values(static_cast<size_t>(i % 50), group.rank() + i);
      group.all_reduce(array_of(values), Reduction::Sum, soon());
      for (const auto value : values) wrong += value != 3 + 3 * i;
      if (i % 7 == 0) group.barrier(soon());
    }
    wrong += busy < 0;
  });
  CHECK(wrong == 0);
}

TEST_CASE("group: a collective mismatch is an error, instead of mixing bytes") {
  InMemoryStore store;
  const auto errors = run_threads(2, [&](int rank) {
    const auto found = discover_host_group(store, {.rank = rank, .num_ranks = 2});
    std::vector<float> values(rank == 0 ? 4 : 5);
    found.group->all_reduce(array_of(values), Reduction::Sum, soon());
  });
  CHECK(text_of(errors[0]) ==
        "collective mismatch: rank 0 called all_reduce of 4 float32 (sum), rank 1 called "
        "all_reduce of 5 float32 (sum)");
  CHECK_THROWS_AS(std::rethrow_exception(errors[1]), PeerLost);
}
