#include "lockstep/hook.h"

namespace lockstep {

HookRegistry& hook_registry() {
  static HookRegistry registry("hook");
  return registry;
}

}  // namespace lockstep
