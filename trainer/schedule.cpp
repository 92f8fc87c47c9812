#include "trainer/schedule.h"

namespace lockstep {

ScheduleRegistry& schedule_registry() {
  static ScheduleRegistry registry("schedule");
  return registry;
}

}  // namespace lockstep
