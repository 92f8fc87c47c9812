// The interface of sinks, the destinations of a run's records in addition to its event log. The
// console sink runs in the trainer. All others run in the tracking agent (or `lockstep sync`),
// which reads the event logs, so that a slow disk or server does not delay training. No LibTorch.
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
//   REGISTER_SINK("last_loss", LastLoss, "writes the last training loss to a file");
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

// The console, as configured by main().
struct ConsoleOptions {
  std::ostream* out = nullptr;  // nullptr: no output. Must outlive the tracker
  bool terminal = false;        // whether lines can be rewritten in place
  bool color = false;           // a terminal, and NO_COLOR is not set
  int columns = 80;             // width of the terminal
};

using Environment = std::function<std::optional<std::string>(const std::string& name)>;

struct SinkContext {
  // Set in the trainer.
  ConsoleOptions console;
  // Set in the tracking agent.
  std::filesystem::path run_dir;  // of the job
  // The sink's directory for this destination: <run_dir>/sinks/<sink>/<entry id>, followed by "@"
  // and part of a digest for a second destination. It exists.
  std::filesystem::path dir;
  bool is_first_entry = true;  // whether this is the job's first entry, which reports for the job
  Environment environment;     // server addresses and tokens; never empty
  // The result of the last flush(); the records after it are delivered. null at the start of a run.
  Json state;
};

// One object per entry in the list of runs (with `tracking.ranks: all`, one per rank).
//
// Thread: all calls come from one thread, which is not the training thread. run_started() is called
// first and run_finished() last.
//
// Errors: any call may throw; the object is then destroyed. After an Environment error, a new
// object is created with exponential backoff. It receives the state of the last flush(),
// run_started() and every record since that flush(). A Config error (a rejected token, an invalid
// name) is not retried: it disables the sink until the next `lockstep sync`.
//
// Exactly once: after a crash, records since the last flush() are delivered again. To avoid
// duplicates, truncate the output file to the length stored in the state, or send idempotent
// requests.
class Sink {
 public:
  virtual ~Sink() = default;
  // The destination of the records, e.g. the address of a server. State is kept per destination:
  // for a new one, the sink starts from the beginning of the run. null: the sink's directory in the
  // run directory. Called before run_started(), possibly as the only call on an object.
  virtual Json destination() const { return nullptr; }
  // Whether the records delivered up to `state` still exist at the destination; if not, the sink
  // starts from the beginning of the run. Called after destination() if there is a state.
  virtual bool has_delivered(const RunInfo&) const { return true; }
  virtual void run_started(const RunInfo& info, const Json& config) = 0;
  virtual void scalars(const ScalarRow& row) = 0;
  virtual void text(const TextLine&) {}
  virtual void console(const ConsoleLine&) {}
  virtual void histogram(const Histogram&) {}
  virtual void image(const Image&) {}
  virtual void clip(const Clip&) {}
  virtual void table(const Table&) {}
  virtual void alert(const Alert&) {}
  virtual void artifact(const ArtifactUse&) {}
  // Summary values of the run, by metric name; later values replace earlier ones.
  virtual void summary(const Json& /*values*/) {}
  // The run resumed after `step`: later steps are delivered again and replace the earlier records.
  virtual void rewind(int64_t /*step*/) {}
  // Delivers all records so far to the server or to disk. May block; every wait must have a
  // timeout. Called about once per second and at the end. Returns the (small) state from which a
  // later object resumes.
  virtual Json flush() { return nullptr; }
  // Called after the last record and before the last flush(). If the run is resumed later, a new
  // object is created and receives run_started().
  virtual void run_finished(const RunEnd& end) = 0;
};

using SinkRegistry = Registry<Sink, const SinkContext&>;
SinkRegistry& sink_registry();

}  // namespace lockstep

// Registers a sink. Use at namespace scope. `Class`: a Sink with a member type Config and a
// constructor (const Config&, const SinkContext&).
#define REGISTER_SINK(name, Class, help)                                                       \
  static const ::lockstep::Registration<Class> registered_##Class(::lockstep::sink_registry(), \
                                                                  name, help)
