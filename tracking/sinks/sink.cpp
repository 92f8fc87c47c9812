#include "lockstep/sink.h"

namespace lockstep {

SinkRegistry& sink_registry() {
  static SinkRegistry registry("sink");
  return registry;
}

}  // namespace lockstep
