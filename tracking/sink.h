// Where the records of a run go besides its event log, while it runs. A sink is one file in
// tracking/sinks/ (or a plugin): a class with a `Config` and a constructor `(const Config&, const
// SinkContext&)`, and one line:
//   REGISTER_SINK("console", ConsoleSink, "progress on the terminal");
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "core/registry.h"
#include "tracking/metric.h"
#include "tracking/run_end.h"
#include "tracking/run_info.h"

namespace lockstep {

// Facts about the console that only `main` and the launcher can know.
struct ConsoleOptions {
  std::ostream* out = nullptr;  // nullptr: nothing is shown. Outlives the tracker
  bool terminal = false;        // lines can be rewritten in place
  bool color = false;           // a terminal, and the user did not ask for none (NO_COLOR)
  int columns = 80;             // width of the terminal
};

// How long the run is meant to be; 0 where that is not known.
struct RunLength {
  int64_t steps = 0;
  double epochs = 0;
};

struct SinkContext {
  ConsoleOptions console;
  RunLength length;
};

// Thread: all calls come from one thread, run_started() first and run_finished() last.
// Errors: may throw; the sink then gets no more calls, and the run goes on. Calls should be quick:
// they are made on the training thread.
class Sink {
 public:
  virtual ~Sink() = default;
  virtual void run_started(const RunInfo& info, const Json& config) = 0;
  virtual void scalars(const ScalarRow& row) = 0;
  virtual void text(TextLevel level, std::string_view line) = 0;
  virtual void run_finished(const RunEnd& end) = 0;
};

using SinkRegistry = Registry<Sink, const SinkContext&>;
SinkRegistry& sink_registry();

// Throws Config for a name that is not registered, or twice in the list.
void verify_sinks(const std::vector<std::string>& names);

// The sink with its default configuration. Requires a registered name.
std::shared_ptr<Sink> make_sink(const std::string& name, const SinkContext& context);

#define REGISTER_SINK(name, Class, help)                                                       \
  static const ::lockstep::Registration<Class> registered_##Class(::lockstep::sink_registry(), \
                                                                  name, help)

}  // namespace lockstep
