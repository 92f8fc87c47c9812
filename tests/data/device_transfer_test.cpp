// Batches on a fake accelerator in host memory: the order of queued operations and the reuse of
// memory are the same as on a GPU.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <semaphore>

#include "data/loader/loader.h"
#include "tests/data/error_of.h"
#include "tests/data/fake_device.h"

namespace lockstep::data {
namespace {

constexpr int64_t kSamples = 203, kBatch = 8;

// Sample i is {i, i, i}; with a layout it is written to the given memory.
class Threes final : public Dataset {
 public:
  explicit Threes(bool has_layout) : has_layout_(has_layout) {}
  std::function<void(int64_t first)> hook = [](int64_t) {};
  int64_t size() const override { return kSamples; }
  std::vector<FieldLayout> layout() const override {
    return has_layout_ ? std::vector<FieldLayout>{{"x", at::kLong, {3}}}
                       : std::vector<FieldLayout>{};
  }
  Batch get_batch(std::span<const int64_t> indices) const override {
    Batch batch{.fields = {{"x", at::empty({static_cast<int64_t>(indices.size()), 3}, at::kLong)}},
                .indices = at::tensor(std::vector<int64_t>(indices.begin(), indices.end()))};
    fill({.indices = indices}, std::vector{batch.fields[0].second});
    return batch;
  }
  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    hook(request.indices.front());
    auto* x = fields[0].mutable_data_ptr<int64_t>();
    for (const auto index : request.indices) x = std::fill_n(x, 3, index);
  }

 private:
  bool has_layout_;
};

std::vector<int64_t> all_samples() {
  std::vector<int64_t> indices;
  for (int64_t i = 0; i < kSamples; ++i) indices.push_back(i * 7 % kSamples);
  return indices;
}

LoaderOptions on_the_device(int64_t workers) {
  return {.batch_size = kBatch, .workers = workers, .prefetch = 3, .device = fake_device::kDevice};
}

// Queues work that checks a batch; adds the number of wrong samples to `wrong`.
void look_at(const Batch& batch, int64_t& seen, int64_t& wrong) {
  const auto* x = batch.at("x").const_data_ptr<int64_t>();
  std::vector<int64_t> expected(batch.indices.const_data_ptr<int64_t>(),
                                batch.indices.const_data_ptr<int64_t>() + batch.size());
  fake_device::enqueue([x, expected, &seen, &wrong] {
    for (size_t i = 0; i < expected.size(); ++i, ++seen)
      wrong += x[3 * i] != expected[i] || x[3 * i + 2] != expected[i];
  });
}

TEST_CASE("device transfer: batches are intact even if the device copies or computes late") {
  for (const bool has_layout : {true, false})
    for (const int64_t workers : {0, 2})
      for (const auto late : {fake_device::Late::Copies, fake_device::Late::Work})
        for (const size_t steps : {0, 1, 2, 3, 100}) {
          INFO(has_layout << " layout, " << workers << " workers, " << steps << " steps each, "
                          << (late == fake_device::Late::Copies ? "copies" : "work") << " late");
          fake_device::reset();
          const Threes dataset(has_layout);
          int64_t seen = 0, wrong = 0;
          {
            Loader loader(dataset, all_samples(), on_the_device(workers));
            while (const auto batch = loader.next()) {
              REQUIRE(batch->at("x").device() == fake_device::kDevice);
              REQUIRE(batch->indices.is_cpu());
              look_at(*batch, seen, wrong);
              fake_device::run(steps, late);
            }
          }
          fake_device::drain();
          CHECK(seen == kSamples);
          CHECK(wrong == 0);
          const auto counts = fake_device::counts();
          CHECK(counts.copies == (kSamples + kBatch - 1) / kBatch);
          CHECK(counts.pageable == 0);  // these would block the host
          CHECK(counts.on_own_stream == counts.copies);
          // Prefetched, held by the consumer, being copied, and copied before.
          if (has_layout) CHECK(counts.page_locked <= 3 + 1 + 1 + 2 + 1);
        }
}

TEST_CASE("device transfer: copying overlaps with work on the previous batch") {
  fake_device::reset();
  std::binary_semaphore third_begun(0);
  Threes dataset(true);
  dataset.hook = [&](int64_t first) {
    if (first == 2 * kBatch) third_begun.release();
  };
  std::vector<int64_t> indices(3 * kBatch);
  for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
  Loader loader(dataset, indices, on_the_device(1));
  REQUIRE(third_begun.try_acquire_for(std::chrono::seconds(30)));
  const auto first = loader.next();
  CHECK(fake_device::counts().copies == 2);
  CHECK(loader.take_stats().batches == 1);
  fake_device::drain();
}

TEST_CASE("device transfer: an error is thrown for its own batch, not for the one before it") {
  for (const int64_t workers : {0, 1, 3}) {
    Threes dataset(true);
    dataset.hook = [](int64_t first) {
      if (first == kBatch) throw environment_error("disk on fire");
    };
    std::vector<int64_t> indices(3 * kBatch);
    for (size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<int64_t>(i);
    Loader loader(dataset, indices, on_the_device(workers));
    CHECK(loader.next()->indices[0].item<int64_t>() == 0);
    CHECK(error_of([&] { loader.next(); })
              .find("batch 1, samples 8, 9, 10, 11 and 4 more: disk "
                    "on fire") != std::string::npos);
    CHECK(loader.next()->indices[0].item<int64_t>() == 2 * kBatch);
    CHECK_FALSE(loader.next().has_value());
    fake_device::drain();
  }
}

}  // namespace
}  // namespace lockstep::data
