#include "lockstep/model.h"

namespace lockstep {

ModelRegistry& model_registry() {
  static ModelRegistry registry("model");
  return registry;
}

}  // namespace lockstep
