// The run that a training is recorded in: created and finished by the session, or opened by the
// embedding program.
#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "lockstep/run_info.h"
#include "lockstep/session.h"
#include "lockstep/tracker.h"
#include "lockstep/world.h"
#include "trainer/prepared/prepared_run.h"

namespace lockstep::trainer {

// Called in this order, on every rank. For a run of the embedding program, the calls do nothing.
class RecordedRun {
 public:
  explicit RecordedRun(std::filesystem::path dir) : dir_(std::move(dir)) {}
  virtual ~RecordedRun() = default;
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;

  std::string id() const { return dir_.filename(); }
  const std::filesystem::path& dir() const { return dir_; }
  virtual Tracker& tracker() = 0;  // records from open() on

  // Collective. Called before any file of the run is modified: throws Environment when another job
  // is writing it.
  virtual void claim() {}
  // Collective. Called once the input is validated: creates the run directory, or discards what an
  // earlier record has after step `resumed`.
  virtual void open(RunLength /*planned*/, int64_t /*resumed*/) {}
  // Collective. The ranks in the session's options have changed: the new main rank describes the run,
  // and, if another process has recorded it until now, continues its record after step `step`. Returns
  // whether this process does that.
  virtual bool change_ranks(RunLength /*planned*/, int64_t /*step*/,
                            std::vector<int64_t> /*local_pids*/) {
    return false;
  }
  // Records how the run ended. Returns one line if its record is lost, else "".
  virtual std::string finish(const RunEnd&) { return {}; }
  virtual void fail(const std::exception& /*error*/) {}

 private:
  std::filesystem::path dir_;
};

// Collective. Returns the run of options.own_run, or the run of this job. `local_pids`: of this
// node's ranks. The arguments outlive it. Throws Config.
std::unique_ptr<RecordedRun> agree_on_run(World& world, const SessionOptions& options,
                                          const PreparedRun& run, std::vector<int64_t> local_pids);

}  // namespace lockstep::trainer
