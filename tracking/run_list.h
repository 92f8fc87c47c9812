// What is in a directory of runs: one record per entry, read from run.json, the event logs and what
// is told of the end. Nothing is cached and nothing is changed.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tracking/event_log_reader.h"
#include "tracking/run_end.h"
#include "tracking/run_info.h"

namespace lockstep {

struct MetricSummary {
  double last = 0, min = 0, max = 0;  // min and max leave NaN out, unless there is nothing else
  int64_t step = 0;                   // of the last value
  uint64_t count = 0;
};

struct RunRecord {
  RunInfo info;
  std::filesystem::path dir;  // of the job
  std::filesystem::path log;  // empty when the job has no event log (yet)
  // Of the node's tracking agent, where this entry shows the node's system metrics; else empty.
  std::filesystem::path node_log;
  RunEnd end;  // resolve() of what is known; exit_code and the rest mean something unless the state
               // is Running or Lost
  Json config;
  std::map<std::string, MetricSummary> metrics;
  int64_t step = 0;                // the latest of its log
  Json summary = Json::object();   // values of the run as a whole
  std::vector<std::string> notes;  // what could not be read, and how much of it was
};

// All entries below `dir`, newest first; ranks of one job in ascending order. Directories that are
// no runs are passed over; damaged ones are listed with a note. Throws Config when `dir` does not
// exist or is no directory.
std::vector<RunRecord> list_runs(const std::filesystem::path& dir);

// The entries of one job, by its directory; empty when it is none.
std::vector<RunRecord> list_job(const std::filesystem::path& run_dir);

// The entries that `id` means: one entry by its id, all entries of a job by the job's id, either
// also by a prefix that no other shares. Never empty. Throws Config, naming the nearest id, or the
// first few when the prefix is not unique.
std::vector<RunRecord> find_run(const std::filesystem::path& dir, const std::string& id);

}  // namespace lockstep
