#include "data/loader.h"

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <semaphore>

#include "tests/data/error_of.h"

namespace lockstep {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Gives back the indices it is asked for; a test hooks in what happens before.
class HookedDataset final : public Dataset {
 public:
  explicit HookedDataset(std::function<void(int64_t first)> hook = [](int64_t) {})
      : hook_(std::move(hook)) {}
  int64_t size() const override { return 1000; }
  Batch get_batch(std::span<const int64_t> indices) const override {
    hook_(indices.front());
    return {.fields = {},
            .indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
  }

 private:
  std::function<void(int64_t)> hook_;
};

std::vector<int64_t> shuffled(int64_t count) {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < count; ++i) indices.push_back(i * 7 % count);
  return indices;
}

std::vector<int64_t> drain(Loader& loader) {
  std::vector<int64_t> all;
  while (const auto batch = loader.next()) {
    const auto* begin = batch->indices.const_data_ptr<int64_t>();
    all.insert(all.end(), begin, begin + batch->size());
  }
  return all;
}

TEST_CASE("loader: the order is that of the indices for any number of workers") {
  const HookedDataset dataset;
  const auto indices = shuffled(103);
  for (const int64_t workers : {0, 1, 4, 64}) {
    Loader loader(dataset, indices, {.batch_size = 10, .workers = workers});
    INFO(workers << " workers");
    CHECK(loader.num_batches() == 11);
    CHECK(drain(loader) == indices);
    CHECK(loader.position() == 11);
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("loader: a slow first batch does not let a later one overtake it") {
  std::binary_semaphore second_loaded(0);
  const HookedDataset dataset([&](int64_t first) {
    if (first == 0 && !second_loaded.try_acquire_for(seconds(30)))
      throw std::runtime_error("no second worker");
    if (first == 5) second_loaded.release();
  });
  Loader loader(dataset, {0, 5, 6, 7}, {.batch_size = 1, .workers = 2});
  CHECK(drain(loader) == std::vector<int64_t>{0, 5, 6, 7});
}

TEST_CASE("loader: drop_last leaves out the batch that is not full") {
  const HookedDataset dataset;
  for (const int64_t workers : {0, 2}) {
    Loader loader(dataset, shuffled(9), {.batch_size = 4, .drop_last = true, .workers = workers});
    CHECK(loader.num_batches() == 2);
    CHECK(drain(loader).size() == 8);
    Loader none(dataset, shuffled(3), {.batch_size = 4, .drop_last = true, .workers = workers});
    CHECK(none.num_batches() == 0);
    CHECK_FALSE(none.next().has_value());
  }
}

TEST_CASE("loader: resuming at a batch gives the rest of the same pass") {
  const HookedDataset dataset;
  const auto indices = shuffled(50);
  for (const int64_t workers : {0, 1, 3}) {
    Loader loader(dataset, indices, {.batch_size = 8, .workers = workers, .first_batch = 3});
    CHECK(loader.num_batches() == 7);
    CHECK(loader.position() == 3);
    CHECK(drain(loader) == std::vector<int64_t>(indices.begin() + 24, indices.end()));
    Loader at_end(dataset, indices, {.batch_size = 8, .workers = workers, .first_batch = 7});
    CHECK_FALSE(at_end.next().has_value());
  }
}

TEST_CASE("loader: an error arrives with its own batch, the batches around it are whole") {
  const HookedDataset dataset([](int64_t first) {
    if (first == 4) throw environment_error("disk on fire");
  });
  for (const int64_t workers : {0, 1, 4}) {
    Loader loader(dataset, {0, 1, 2, 3, 4, 5, 6, 7}, {.batch_size = 2, .workers = workers});
    CHECK(loader.next()->indices[0].item<int64_t>() == 0);
    CHECK(loader.next()->indices[0].item<int64_t>() == 2);
    CHECK(error_of([&] { loader.next(); }) == "environment: disk on fire");
    CHECK(loader.next()->indices[0].item<int64_t>() == 6);
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("loader: no more than two batches per worker are loaded ahead") {
  std::atomic<int64_t> loaded{0};
  std::counting_semaphore<1000> progress(0);
  const HookedDataset dataset([&](int64_t) {
    ++loaded;
    progress.release();
  });
  Loader loader(dataset, shuffled(100), {.batch_size = 1, .workers = 2});
  for (int i = 0; i < 4; ++i) REQUIRE(progress.try_acquire_for(seconds(30)));
  CHECK_FALSE(progress.try_acquire_for(milliseconds(50)));
  CHECK(loaded == 4);
  loader.next();
  REQUIRE(progress.try_acquire_for(seconds(30)));
  CHECK_FALSE(progress.try_acquire_for(milliseconds(50)));
  CHECK(loaded == 5);
}

TEST_CASE("loader: ending in the middle of a pass stops the workers") {
  std::atomic<int64_t> loaded{0};
  const HookedDataset dataset([&](int64_t) { ++loaded; });
  for (int round = 0; round < 50; ++round) {
    loaded = 0;
    {
      Loader loader(dataset, shuffled(1000), {.batch_size = 1, .workers = 4});
      loader.next();
    }
    CHECK(loaded <= 9);
  }
}

TEST_CASE("loader: a dataset that hangs is an error after the timeout") {
  std::binary_semaphore go_on(0);
  const HookedDataset dataset([&](int64_t) { (void)go_on.try_acquire_for(seconds(30)); });
  Loader loader(dataset, shuffled(4), {.batch_size = 4, .workers = 1, .timeout = milliseconds(20)});
  CHECK(error_of([&] { loader.next(); }) ==
        "environment: data loader: batch 0 was not loaded within 0.02 s: the storage of the "
        "dataset hangs or is too slow");
  go_on.release();
}

TEST_CASE("loader: impossible options are bugs of the caller") {
  const HookedDataset dataset;
  const auto error = [&](LoaderOptions options) {
    return error_of([&] { Loader(dataset, shuffled(8), options); });
  };
  CHECK(error({.batch_size = 0}).starts_with("bug: "));
  CHECK(error({.workers = -1}).starts_with("bug: "));
  CHECK(error({.batch_size = 4, .first_batch = 3}).starts_with("bug: "));
  CHECK(error({.batch_size = 4, .first_batch = 2}) == "no error");
}

}  // namespace
}  // namespace lockstep
