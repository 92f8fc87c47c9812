// A dataset hands out whole batches, so that one in memory or mapped is a single gather.
#pragma once

#include <cstdint>
#include <span>

#include "core/registry.h"
#include "data/batch.h"

namespace lockstep {

// Thread: const and safe to call from several loader threads at once.
class Dataset {
 public:
  virtual ~Dataset() = default;

  // Number of samples.
  virtual int64_t size() const = 0;

  // The samples `indices` (each in [0, size())), in that order. Throws Environment when their
  // storage fails.
  virtual Batch get_batch(std::span<const int64_t> indices) const = 0;
};

using DatasetRegistry = Registry<Dataset>;
DatasetRegistry& dataset_registry();

}  // namespace lockstep

// Once per dataset, at namespace scope of its file. `type`: a Dataset with a Config and a
// constructor from it.
#define REGISTER_DATASET(name, type, help)                            \
  static const ::lockstep::Registration<type> registration_of_##type( \
      ::lockstep::dataset_registry(), name, help)
