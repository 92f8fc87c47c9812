#include "trainer/config/precision.h"

#include "lockstep/error.h"
#include "models/autocast.h"

namespace lockstep::trainer {
Outputs forward_in(Precision precision, Model& model, const Batch& batch) {
  if (precision == Precision::Float32) return model.forward(batch);
  check(!batch.fields.empty(), "batch has no fields");
  const models::Autocast autocast(batch.fields.begin()->second.device().type(),
                                  precision == Precision::Float16 ? at::kHalf : at::kBFloat16);
  return model.forward(batch);
}

}  // namespace lockstep::trainer
