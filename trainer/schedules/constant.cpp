// Constant learning rate.
#include "lockstep/schedule.h"

namespace lockstep {
namespace {

struct ConstantConfig {};

template <class V>
void fields(V& /*v*/, ConstantConfig& /*c*/) {}

class Constant final : public Schedule {
 public:
  using Config = ConstantConfig;

  Constant(const Config& /*config*/, const ScheduleSpan& /*span*/) {}
  double factor(int64_t /*step*/) const override { return 1; }
};

REGISTER_SCHEDULE("constant", Constant, "constant learning rate");

}  // namespace
}  // namespace lockstep
