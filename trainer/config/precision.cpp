#include "trainer/config/precision.h"

#include <ATen/autocast_mode.h>

#include "lockstep/error.h"

namespace lockstep::trainer {
namespace {

// Enables autocast on this thread for its lifetime. Cached casts of parameters are cleared when the
// outermost one ends.
class Autocast {
 public:
  Autocast(at::DeviceType device, at::ScalarType type)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        type_before_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::set_autocast_enabled(device, true);
    at::autocast::set_autocast_dtype(device, type);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, type_before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  const at::DeviceType device_;
  const bool was_enabled_;
  const at::ScalarType type_before_;
};

}  // namespace

Outputs forward_in(Precision precision, Model& model, const Batch& batch) {
  if (precision == Precision::Float32) return model.forward(batch);
  check(!batch.fields.empty(), "batch has no fields");
  const Autocast autocast(batch.fields.begin()->second.device().type(),
                          precision == Precision::Float16 ? at::kHalf : at::kBFloat16);
  return model.forward(batch);
}

}  // namespace lockstep::trainer
