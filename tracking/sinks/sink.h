// Where the records of a run go besides its event log. A sink is one file in tracking/sinks/ (or a
// plugin): a class with a `Config` and a constructor `(const Config&, const SinkContext&)`, and one
// line:
//   REGISTER_SINK("csv", CsvSink, "one row per value, for spreadsheets");
// The console sink works in the trainer; every other one in the tracking agent (or `lockstep
// sync`), which reads the event logs: it may wait for a disk or a server without anyone noticing.
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "core/config/registry.h"
#include "tracking/log/metric.h"
#include "tracking/log/record.h"
#include "tracking/log/run_end.h"
#include "tracking/log/run_info.h"

namespace lockstep {

// Facts about the console that only `main` and the launcher can know.
struct ConsoleOptions {
  std::ostream* out = nullptr;  // nullptr: nothing is shown. Outlives the tracker
  bool terminal = false;        // lines can be rewritten in place
  bool color = false;           // a terminal, and the user did not ask for none (NO_COLOR)
  int columns = 80;             // width of the terminal
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct SinkContext {
  // In the trainer.
  ConsoleOptions console;
  // In the agent.
  std::filesystem::path run_dir;  // of the job
  // The sink's own for this destination: <run_dir>/sinks/<sink>/<entry id>, or with "@" and a part
  // of a digest behind it. Exists.
  std::filesystem::path dir;
  bool speaks_for_job = true;  // of several entries of a job the first
  Environment environment;     // where servers and tokens come from; never empty
  Json state;  // what flush() returned when the position was stored from which records follow; null
               // at the very beginning of the run
};

// One object per entry in the list of runs (with `ranks: all`: one per rank).
//
// Thread: all calls come from one thread, run_started() first and run_finished() last. It is not
// the training thread.
//
// Errors: any call may throw. The object is then destroyed; later (with growing pauses) a new one
// is made with the state of the last flush(), and gets run_started() and every record since then
// again. An Environment error is worth another try; a Config error (a refused token, a name that
// the server does not take) is not, and ends the feeding of this sink until the next `lockstep
// sync`.
//
// Exactly once: what was given after the last flush() may come again after a crash. A sink makes
// that good by cutting its own file to the length it noted in its state, or by requests that can be
// repeated.
class Sink {
 public:
  virtual ~Sink() = default;
  // Where the records go. What flush() returned belongs to this place: a sink that goes elsewhere
  // is fed from the beginning. null: a place that is the sink's own in the run directory, or none.
  // Asked before run_started(), also of an object that gets no other call.
  virtual Json destination() const { return nullptr; }
  // Whether what was delivered before `state` is still there; when it is not, the sink is fed from
  // the beginning. Asked as destination() is, where there is a state.
  virtual bool has_delivered(const RunInfo&) const { return true; }
  virtual void run_started(const RunInfo& info, const Json& config) = 0;
  virtual void scalars(const ScalarRow& row) = 0;
  virtual void text(const TextLine&) {}
  virtual void console(const ConsoleLine&) {}
  virtual void histogram(const Histogram&) {}
  virtual void image(const Image&) {}
  virtual void table(const Table&) {}
  virtual void alert(const Alert&) {}
  virtual void artifact(const ArtifactUse&) {}
  // Values of the run as a whole, metric name to value; a later one replaces an earlier one.
  virtual void summary(const Json& /*values*/) {}
  // The run went back to `step`: values of later steps follow again and replace those given.
  virtual void rewind(int64_t /*step*/) {}
  // Delivers what was given so far: to the server, or to the disk. Blocks, each wait with a timeout
  // of its own. Called about once a second, and at the end. Returns what a later object needs to
  // go on from here, small.
  virtual Json flush() { return nullptr; }
  // After the last record, and before the last flush(). A run that is continued later (a resume)
  // begins again with run_started() of a new object.
  virtual void run_finished(const RunEnd& end) = 0;
};

using SinkRegistry = Registry<Sink, const SinkContext&>;
SinkRegistry& sink_registry();

#define REGISTER_SINK(name, Class, help)                                                       \
  static const ::lockstep::Registration<Class> registered_##Class(::lockstep::sink_registry(), \
                                                                  name, help)

}  // namespace lockstep
