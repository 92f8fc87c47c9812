#include "data/loader/loader.h"

#include <ATen/ATen.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <semaphore>
#include <set>

#include "lockstep/sample_random.h"
#include "tests/data/error_of.h"

namespace lockstep::data {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// Returns the requested indices; calls a hook of the test first.
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

TEST_CASE("loader: drop_last drops the incomplete batch") {
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

TEST_CASE("loader: an error is thrown for its own batch, the other batches are intact") {
  const HookedDataset dataset([](int64_t first) {
    if (first == 4) throw environment_error("disk on fire");
  });
  for (const int64_t workers : {0, 1, 4}) {
    Loader loader(dataset, {0, 1, 2, 3, 4, 5, 6, 7},
                  {.batch_size = 2, .workers = workers, .name = "data.train"});
    CHECK(loader.next()->indices[0].item<int64_t>() == 0);
    CHECK(loader.next()->indices[0].item<int64_t>() == 2);
    CHECK(error_of([&] { loader.next(); }) ==
          "environment: data.train: batch 2, samples 4, 5: disk on fire");
    CHECK(loader.next()->indices[0].item<int64_t>() == 6);
    CHECK_FALSE(loader.next().has_value());
  }
}

TEST_CASE("loader: an exception of a dataset that is not a std::exception is an error") {
  const HookedDataset dataset([](int64_t first) {
    if (first == 0) throw 42;
  });
  for (const int64_t workers : {0, 2}) {
    Loader loader(dataset, {0, 1}, {.batch_size = 1, .workers = workers});
    CHECK(error_of([&] { loader.next(); }) ==
          "bug: data: batch 0, sample 0: a plugin threw an exception of an unknown type");
    CHECK(loader.next()->indices[0].item<int64_t>() == 1);
  }
}

TEST_CASE("loader: the number of prefetched batches does not depend on the workers") {
  std::atomic<int64_t> loaded{0};
  std::counting_semaphore<1000> progress(0);
  const HookedDataset dataset([&](int64_t) {
    ++loaded;
    progress.release();
  });
  Loader loader(dataset, shuffled(100), {.batch_size = 1, .workers = 8, .prefetch = 4});
  for (int i = 0; i < 4; ++i) REQUIRE(progress.try_acquire_for(seconds(30)));
  CHECK_FALSE(progress.try_acquire_for(milliseconds(50)));
  CHECK(loaded == 4);
  loader.next();
  REQUIRE(progress.try_acquire_for(seconds(30)));
  CHECK_FALSE(progress.try_acquire_for(milliseconds(50)));
  CHECK(loaded == 5);
}

TEST_CASE("loader: destruction in the middle of a pass stops the workers") {
  std::atomic<int64_t> loaded{0};
  const HookedDataset dataset([&](int64_t) { ++loaded; });
  for (int round = 0; round < 50; ++round) {
    loaded = 0;
    {
      Loader loader(dataset, shuffled(1000), {.batch_size = 1, .workers = 4});
      loader.next();
    }
    CHECK(loaded <= 6);  // one taken, four prefetched, one more when it was taken
  }
}

TEST_CASE("loader: a dataset that hangs is an error after the timeout") {
  std::binary_semaphore proceed(0);
  const auto is_gone = std::make_shared<std::binary_semaphore>(0);
  std::shared_ptr<HookedDataset> dataset(new HookedDataset([&](int64_t) { proceed.acquire(); }),
                                         [is_gone](HookedDataset* hung) {
                                           delete hung;
                                           is_gone->release();
                                         });
  {
    Loader loader(*dataset, shuffled(4),
                  {.batch_size = 4, .workers = 1, .timeout = milliseconds(20)});
    CHECK(error_of([&] { loader.next(); }) ==
          "environment: data: batch 0 was not loaded within 0.02 s: the storage of the "
          "dataset is blocked or too slow");
  }
  dataset.reset();
  CHECK_FALSE(is_gone->try_acquire());  // the blocked worker holds it
  proceed.release();
  CHECK(is_gone->try_acquire_for(seconds(30)));
}

// Has a layout: "value" is the sample's index, "noise" a separate random number.
class FilledDataset final : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  std::vector<FieldLayout> layout() const override {
    return {{"value", at::kLong, {}}, {"noise", at::kDouble, {2}}};
  }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    largest_request = std::max<int64_t>(largest_request, std::ssize(request.indices));
    auto* value = fields[0].mutable_data_ptr<int64_t>();
    auto* noise = fields[1].mutable_data_ptr<double>();
    for (const auto index : request.indices) {
      if (index == bad_sample) throw config_error("file f.bin: sample is corrupt");
      *value++ = index;
      SampleRandom random(request.seed, request.epoch, index);
      *noise++ = random.uniform();
      *noise++ = random.uniform();
    }
  }
  mutable std::atomic<int64_t> largest_request{0};
  int64_t bad_sample = -1;
};

TEST_CASE("loader: batches filled in place are the same for any number of workers") {
  const FilledDataset dataset;
  const auto indices = shuffled(103);
  const auto expected = gather(dataset, {.indices = indices, .seed = 3, .epoch = 5});
  for (const int64_t workers : {0, 1, 4, 16}) {
    dataset.largest_request = 0;
    Loader loader(dataset, indices,
                  {.batch_size = 10, .workers = workers, .prefetch = 4, .seed = 3, .epoch = 5});
    std::vector<at::Tensor> values, noise, numbers;
    while (const auto batch = loader.next()) {
      values.push_back(batch->at("value").clone());
      noise.push_back(batch->at("noise").clone());
      numbers.push_back(batch->indices.clone());
    }
    INFO(workers << " workers");
    CHECK(at::cat(values).equal(expected.at("value")));
    CHECK(at::cat(noise).equal(expected.at("noise")));
    CHECK(at::cat(numbers).equal(expected.indices));
    CHECK(dataset.largest_request == (workers == 16 ? 3 : 10));  // many workers share a batch
  }
}

TEST_CASE("loader: memory is reused, but never while it is referenced") {
  const FilledDataset dataset;
  for (const int64_t workers : {0, 1, 3}) {
    Loader loader(dataset, shuffled(1000), {.batch_size = 10, .workers = workers, .prefetch = 2});
    std::set<const void*> addresses;
    std::vector<Batch> kept;
    std::vector<at::Tensor> copies;
    while (auto batch = loader.next()) {
      addresses.insert(batch->at("value").const_data_ptr());
      if (loader.position() % 10 != 0) continue;
      copies.push_back(batch->at("value").clone());
      batch->fields[0].second = batch->fields[0].second.view({-1, 5});  // a view references it too
      kept.push_back(std::move(*batch));
    }
    INFO(workers << " workers");
    CHECK(addresses.size() <= 5 + kept.size());
    for (size_t i = 0; i < kept.size(); ++i) CHECK(kept[i].at("value").flatten().equal(copies[i]));
  }
}

TEST_CASE("loader: changes to a tensor's shape do not affect its reused memory") {
  const FilledDataset dataset;
  Loader loader(dataset, shuffled(45), {.batch_size = 10});
  while (auto batch = loader.next()) {
    auto& noise = batch->fields[1].second;
    CHECK(noise.sizes() == at::IntArrayRef({batch->size(), 2}));
    CHECK(noise.is_contiguous());
    CHECK_FALSE(noise.requires_grad());
    noise.resize_({1});
    noise.add_(1).requires_grad_();
    CHECK((noise * 2).grad_fn() != nullptr);  // usable with autograd
  }
}

TEST_CASE("loader: an error in a part of a batch names the samples of that part") {
  FilledDataset dataset;
  dataset.bad_sample = 6;
  std::vector<int64_t> indices = {0, 1, 2, 3, 4, 5, 6, 7};
  Loader loader(dataset, indices, {.batch_size = 8, .workers = 4, .prefetch = 1, .name = "d"});
  CHECK(error_of([&] { loader.next(); }) ==
        "config: d: batch 0, samples 6, 7: file f.bin: sample is corrupt");
  Loader alone(dataset, indices, {.batch_size = 8, .name = "d"});
  CHECK(error_of([&] { alone.next(); }) ==
        "config: d: batch 0, samples 0, 1, 2, 3 and 4 more: file f.bin: sample is corrupt");
}

TEST_CASE("loader: statistics count the waiting time and ready batches of next()") {
  std::binary_semaphore proceed(0), begun(0);
  const HookedDataset dataset([&](int64_t first) {
    if (first != 0) return;
    begun.release();
    (void)proceed.try_acquire_for(seconds(30));
  });
  Loader loader(dataset, {0, 1, 2}, {.batch_size = 1, .workers = 1});
  REQUIRE(begun.try_acquire_for(seconds(30)));
  proceed.release();
  while (loader.next()) {
  }
  const auto stats = loader.take_stats();
  CHECK(stats.batches == 3);
  CHECK(stats.wait_s > 0);
  CHECK(stats.ready >= 0);
  CHECK(stats.ready <= 3 + 2 + 1);
  CHECK(loader.take_stats().batches == 0);
}

TEST_CASE("loader: impossible options are bugs of the caller") {
  const HookedDataset dataset;
  const auto error = [&](LoaderOptions options) {
    return error_of([&] { Loader(dataset, shuffled(8), options); });
  };
  CHECK(error({.batch_size = 0}).starts_with("bug: "));
  CHECK(error({.workers = -1}).starts_with("bug: "));
  CHECK(error({.batch_size = 1, .prefetch = 0}).starts_with("bug: "));
  CHECK(error({.batch_size = 4}) == "no error");
}

// Every tenth sample cannot be loaded. With a layout, its samples go into given memory.
class Corrupt final : public Dataset {
 public:
  explicit Corrupt(bool has_layout) : has_layout_(has_layout) {}
  int64_t size() const override { return 100; }
  std::vector<FieldLayout> layout() const override {
    return has_layout_ ? std::vector<FieldLayout>{{"x", at::kLong, {2}}}
                       : std::vector<FieldLayout>{};
  }
  Batch get_batch(std::span<const int64_t> indices) const override {
    Batch batch{.fields = {{"x", at::empty({static_cast<int64_t>(indices.size()), 2}, at::kLong)}},
                .indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
    fill({.indices = indices}, std::vector{batch.fields[0].second});
    return batch;
  }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    auto* x = fields[0].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices) {
      if (index % 10 == 3) throw config_error("file " + std::to_string(index) + ": corrupt");
      *x++ = index;
      *x++ = -index;
    }
  }

 private:
  bool has_layout_;
};

TEST_CASE("loader: bad samples are skipped, counted and named up to a limit") {
  for (const bool has_layout : {true, false})
    for (const int64_t workers : {0, 2, 16}) {
      INFO(has_layout << " layout, " << workers << " workers");
      const Corrupt dataset(has_layout);
      std::vector<int64_t> expected;
      for (const auto index : shuffled(100))
        if (index % 10 != 3) expected.push_back(index);
      const auto bad = tolerated(10);
      LoaderOptions options{.batch_size = 16, .workers = workers};
      options.bad_samples = bad;
      for (int epoch = 0; epoch < 2; ++epoch) {
        Loader loader(dataset, shuffled(100), options);
        std::vector<int64_t> seen;
        while (const auto batch = loader.next()) {
          REQUIRE(batch->at("x").size(0) == batch->size());
          for (int64_t i = 0; i < batch->size(); ++i) {
            seen.push_back(batch->indices[i].item<int64_t>());
            CHECK(batch->at("x")[i][0].item<int64_t>() == seen.back());
            CHECK(batch->at("x")[i][1].item<int64_t>() == -seen.back());
          }
        }
        CHECK(seen == expected);
        CHECK(bad->count() == 10);  // each once, in however many epochs
      }
      const auto warnings = bad->take_warnings();
      REQUIRE(warnings.size() == 10);
      CHECK(warnings[0].find(" is skipped: file ") != std::string::npos);
      CHECK(bad->take_warnings().empty());

      options.bad_samples = tolerated(3);
      Loader loader(dataset, shuffled(100), options);
      const auto error = error_of([&] { drain(loader); });
      CHECK(error.find("corrupt (bad sample 4, data.max_bad_samples is 3)") != std::string::npos);
    }
}

TEST_CASE("loader: a batch of only bad samples is an error") {
  const Corrupt dataset(true);
  const auto bad = tolerated(10);
  LoaderOptions options{.batch_size = 2, .name = "data.train"};
  options.bad_samples = bad;
  Loader loader(dataset, {3, 13, 1}, options);
  CHECK(error_of([&] { loader.next(); }) ==
        "environment: data.train: no sample of a batch could be loaded");
  CHECK(loader.next()->size() == 1);
}

TEST_CASE("loader: a storage failure is not a bad sample") {
  const HookedDataset dataset([](int64_t first) {
    if (first == 4) throw environment_error("f.bin: was changed while it was being read");
  });
  const auto bad = tolerated(10);
  LoaderOptions options{.batch_size = 2, .name = "data.train"};
  options.bad_samples = bad;
  Loader loader(dataset, {4, 3}, options);
  CHECK(error_of([&] { loader.next(); }) ==
        "environment: data.train: batch 0, samples 4, 3: f.bin: was changed while it was being "
        "read");
  CHECK(bad->count() == 0);
}

}  // namespace
}  // namespace lockstep::data
