// Removing runs and what is left of them.
//
// A run goes by one rename into <runs>/.trash/, so that a kill leaves no half of one in the list;
// then its files are removed. Links are removed, never followed.
#pragma once

#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

#include "cli/runs/runs_command.h"

namespace lockstep::cli {

struct RunsStreams {
  std::ostream& out;
  std::ostream& notes;
  const AskUser& ask;
};

struct DeleteRun {
  std::filesystem::path runs;
  std::string id;
  bool yes = false;
  bool json = false;
};

// Throws Config for a run that is not over, a rank of several, and where nobody can be asked;
// returns the exit code.
int delete_run(const DeleteRun& request, const RunsStreams& streams);

struct CollectGarbage {
  std::filesystem::path runs;
  std::optional<std::string> older_than;  // "30d", "12 h"
  std::optional<std::string> state;       // "failed,lost"
  bool dry_run = false;
  bool json = false;
};

// What is removed: the trash; temporary files that nobody has touched for an hour, in runs that are
// over; what ArtifactStore::gc() finds; and, when a state or an age is given, runs that have both.
// The age of a run is the time since it last wrote anything; without an age it must be an hour.
// Throws Config for a bad age or state; exit code 75 when something could not be removed, after all
// the rest was.
int collect_garbage(const CollectGarbage& request, const RunsStreams& streams);

}  // namespace lockstep::cli
