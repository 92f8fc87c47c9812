// How a Loader works, and what it has cost.
#pragma once

#include <c10/core/Device.h>

#include <chrono>
#include <cstdint>
#include <string>

#include "data/loader/bad_samples.h"

namespace lockstep::data {

struct LoaderOptions {
  int64_t batch_size = 1;  // samples per batch of this rank, at least 1
  bool drop_last = false;  // leave out a last batch that is not full
  int64_t workers = 0;     // threads; 0 loads inside next()
  int64_t prefetch = 4;    // batches loaded ahead at most, whatever the number of workers
  uint64_t seed = 0;       // with the epoch, of augmentation
  int64_t epoch = 0;
  at::Device device = at::kCPU;  // where next() gives the batches; indices stay on the CPU
  std::string name = "data";     // of the data in errors
  // What cannot be loaded goes here, as far as it allows; none: it is an error. Outlives the
  // loader.
  BadSamples* bad_samples = nullptr;
  // How long next() waits for one batch before it gives up.
  std::chrono::milliseconds timeout = std::chrono::minutes(10);
};

// What batches have cost their consumer.
struct LoaderStats {
  int64_t batches = 0;  // given out
  int64_t ready = 0;    // sum over them: batches that lay ready, that one included, at its call
  double wait_s = 0;    // time inside next(): with a loader that keeps up, none

  LoaderStats& operator+=(const LoaderStats& other) {
    batches += other.batches;
    ready += other.ready;
    wait_s += other.wait_s;
    return *this;
  }
};

}  // namespace lockstep::data
