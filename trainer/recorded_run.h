// The run that a training is recorded in: one that the session makes and ends, or one that the
// program has open.
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

// The calls come in this order, on every rank. Those of a run of the program's own do nothing.
class RecordedRun {
 public:
  explicit RecordedRun(std::filesystem::path dir) : dir_(std::move(dir)) {}
  virtual ~RecordedRun() = default;
  RecordedRun(const RecordedRun&) = delete;
  RecordedRun& operator=(const RecordedRun&) = delete;

  std::string id() const { return dir_.filename(); }
  const std::filesystem::path& dir() const { return dir_; }
  virtual Tracker& tracker() = 0;  // records from open() on

  // Collective. Before anything of the run is touched: throws Environment when another job writes
  // it.
  virtual void claim() {}
  // Collective. When nothing in the input can be wrong any more: makes the run's directory, or
  // takes back what an earlier record has after step `resumed`.
  virtual void open(RunLength /*planned*/, int64_t /*resumed*/) {}
  // How the run ended. Returns, in one line, that its record is lost, if so.
  virtual std::string finish(const RunEnd&) { return {}; }
  virtual void fail(const std::exception& /*error*/) {}

 private:
  std::filesystem::path dir_;
};

// Collective. The run of options.own_run, or the one that this job is. `local_pids`: of this node's
// ranks. The arguments outlive it. Throws Config.
std::unique_ptr<RecordedRun> agree_on_run(World& world, const SessionOptions& options,
                                          const PreparedRun& run, std::vector<int64_t> local_pids);

}  // namespace lockstep::trainer
