#include "tracking/sink.h"

#include <fmt/format.h>

#include <algorithm>

namespace lockstep {

SinkRegistry& sink_registry() {
  static SinkRegistry registry("sink");
  return registry;
}

void verify_sinks(const std::vector<std::string>& names) {
  const auto& registry = sink_registry();
  registry.verify();
  for (const auto& name : names) {
    if (!registry.find(name))
      throw config_error(fmt::format("tracking.sinks: unknown sink '{}'{}", name,
                                     suggest(name, registry.names())));
    if (std::ranges::count(names, name) > 1)
      throw config_error(fmt::format("tracking.sinks: '{}' is listed twice", name));
  }
}

std::shared_ptr<Sink> make_sink(const std::string& name, const SinkContext& context) {
  const auto* entry = sink_registry().find(name);
  check(entry != nullptr, "make_sink() needs a registered name");
  return entry->make()->build(context);
}

}  // namespace lockstep
