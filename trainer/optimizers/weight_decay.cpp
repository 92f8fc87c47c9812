#include "trainer/optimizers/weight_decay.h"

namespace lockstep::trainer {

bool is_decayed(WeightDecay on, const at::Tensor& parameter) {
  return on == WeightDecay::All || parameter.dim() >= 2;
}

}  // namespace lockstep::trainer
