#include "data/dataset.h"

namespace lockstep {

DatasetRegistry& dataset_registry() {
  static DatasetRegistry registry("dataset");
  return registry;
}

}  // namespace lockstep
