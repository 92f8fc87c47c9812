// Deletion of runs, and garbage collection.
//
// A run is first moved to <runs>/.trash/ with one rename, so that a kill never leaves a partial
// run in the list; then its files are removed. Links are removed, never followed.
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

// Returns the exit code. Throws Config for a run in use, for one rank of several, and if
// confirmation is required but there is no terminal.
int delete_run(const DeleteRun& request, const RunsStreams& streams);

struct CollectGarbage {
  std::filesystem::path runs;
  std::optional<std::string> older_than;  // "30d", "12 h"
  std::optional<std::string> state;       // "failed,lost"
  bool dry_run = false;
  bool json = false;
};

// Removes the trash; temporary files in finished runs, unmodified for an hour; what
// ArtifactStore::gc() finds; and, if a state or an age is given, runs that match all conditions.
// The age of a run is the time since it last wrote anything (default: at least an hour). Throws
// Config for an invalid age or state. Returns 75 if something could not be removed, after the rest.
int collect_garbage(const CollectGarbage& request, const RunsStreams& streams);

}  // namespace lockstep::cli
