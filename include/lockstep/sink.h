// The interface of sinks: where the records of a run go besides its event log. The console sink
// runs in the trainer; all others run in the tracking agent (or `lockstep sync`), which reads the
// event logs, so a slow disk or server does not delay training. No LibTorch.
//
// Example:
//   struct LastLossConfig {};
//   template <class V>
//   void fields(V&, LastLossConfig&) {}
//
//   class LastLoss final : public lockstep::Sink {
//    public:
//     using Config = LastLossConfig;
//     LastLoss(const Config&, const lockstep::SinkContext& run) : file_(run.dir / "loss") {}
//     void run_started(const lockstep::RunInfo&, const lockstep::Json&) override {}
//     void scalars(const lockstep::ScalarRow& row) override {
//       for (const auto& metric : row.values)
//         if (metric.name == "train/loss") loss_ = metric.value;
//     }
//     void run_finished(const lockstep::RunEnd&) override { std::ofstream(file_) << loss_; }
//
//    private:
//     std::filesystem::path file_;
//     double loss_ = 0;
//   };
//   REGISTER_SINK("last_loss", LastLoss, "the last training loss, in a file");
#pragma once

#include <filesystem>
#include <functional>
#include <iosfwd>
#include <memory>
#include <optional>
#include <string>

#include "lockstep/record.h"
#include "lockstep/registry.h"
#include "lockstep/run_info.h"

namespace lockstep {

// The console, as main() sets it up.
struct ConsoleOptions {
  std::ostream* out = nullptr;  // nullptr: no output. Outlives the tracker
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
  // The sink's directory for this destination: <run_dir>/sinks/<sink>/<entry id>, with "@" and a
  // part of a digest for a second destination. Exists.
  std::filesystem::path dir;
  bool speaks_for_job = true;  // for the first entry of a job
  Environment environment;     // server addresses and tokens; never empty
  // What the last flush() returned: the records after it follow. null at the start of a run.
  Json state;
};

// One object per entry in the list of runs (with `tracking.ranks: all`, one per rank).
//
// Thread: all calls come from one thread, run_started() first and run_finished() last. It is not
// the training thread.
//
// Errors: any call may throw. The object is then destroyed; later, with exponential backoff, a new
// one is made with the state of the last flush(), and gets run_started() and every record since
// then again. An Environment error is retried. A Config error (a refused token, an invalid name) is
// not: it disables this sink until the next `lockstep sync`.
//
// Exactly once: after a crash, records since the last flush() are delivered again. A sink handles
// that by truncating its file to the length in its state, or by idempotent requests.
class Sink {
 public:
  virtual ~Sink() = default;
  // Where the records go, e.g. a server's address. The state belongs to it: at a new destination
  // the sink starts from the beginning of the run. null: its directory in the run. Called before
  // run_started(), also on an object that gets no other call.
  virtual Json destination() const { return nullptr; }
  // Whether what was delivered up to `state` is still there; if not, the sink starts from the
  // beginning of the run. Called as destination() is, when there is a state.
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
  // Values of the whole run, metric name to value; a later value replaces an earlier one.
  virtual void summary(const Json& /*values*/) {}
  // The run resumed after `step`: values of later steps come again and replace earlier ones.
  virtual void rewind(int64_t /*step*/) {}
  // Delivers all records so far to the server or the disk. May block; every wait needs a timeout.
  // Called about once a second and at the end. Returns the state (small) from which a later object
  // continues.
  virtual Json flush() { return nullptr; }
  // After the last record, before the last flush(). When the run is resumed later, a new object
  // gets run_started().
  virtual void run_finished(const RunEnd& end) = 0;
};

using SinkRegistry = Registry<Sink, const SinkContext&>;
SinkRegistry& sink_registry();

}  // namespace lockstep

// At namespace scope, once per sink. `Class`: a Sink with a Config and a constructor (const
// Config&, const SinkContext&).
#define REGISTER_SINK(name, Class, help)                                                       \
  static const ::lockstep::Registration<Class> registered_##Class(::lockstep::sink_registry(), \
                                                                  name, help)
