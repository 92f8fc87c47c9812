// Options and statistics of a Loader.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "data/loader/bad_samples.h"

namespace lockstep::data {

struct LoaderOptions {
  int64_t batch_size = 1;  // samples per batch of this rank, at least 1
  bool drop_last = false;  // drop an incomplete last batch
  int64_t group = 1;       // consecutive batches of the same size; divides the samples
  int64_t workers = 0;     // threads; 0 loads inside next()
  int64_t prefetch = 4;    // maximum batches loaded ahead, for any number of workers
  uint64_t seed = 0;       // with the epoch, of augmentation
  int64_t epoch = 0;
  at::Device device = at::kCPU;  // of the batches of next(); indices stay on the CPU
  std::string name = "data";     // of the data in errors
  // Collects samples that cannot be loaded, up to its limit; nullptr: they are errors.
  std::shared_ptr<BadSamples> bad_samples = nullptr;
  // Maximum time that next() waits for a batch.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// Waiting time of the consumer.
struct LoaderStats {
  int64_t batches = 0;  // returned
  int64_t ready = 0;    // sum over calls of the batches ready then, including the returned one
  double wait_s = 0;    // time inside next(); 0 if the loader keeps up

  LoaderStats& operator+=(const LoaderStats& other) {
    batches += other.batches;
    ready += other.ready;
    wait_s += other.wait_s;
    return *this;
  }
};

}  // namespace lockstep::data
