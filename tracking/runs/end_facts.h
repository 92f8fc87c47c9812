// How a job ended: the facts that each witness recorded, and which of them decides. Each witness
// writes a small file, which is replaced atomically:
//   <run_dir>/ends/launcher-00000.json  how the processes of the job exited
//   <run_dir>/ends/trainer-00001.json   how rank 1 failed; for rank 0 also: preempted, stopped early
//   <run_dir>/ends/agent-00000.json     a process of node 0 vanished without recording an end
// A rank that completes its last step records an `end` in its event log and writes no file.
// <run_dir>/end.json, for other programs and earlier versions, is the result of resolve().
#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "lockstep/run_info.h"

namespace lockstep::tracking {

enum class Witness { Launcher, Trainer, Agent };

struct EndFact {
  Witness by = Witness::Trainer;
  int number = 0;  // the rank of the trainer, the node of the agent
  RunEnd end;
  // Caused by another process: this rank lost a peer, or this launcher stopped ranks that recorded
  // their own end.
  bool is_consequence = false;
  double time = 0;  // unix seconds

  bool operator==(const EndFact&) const = default;
};

using EndFacts = std::vector<EndFact>;

// nullopt if `json` is not a fact.
std::optional<EndFact> end_fact_from_json(const Json& json);
Json to_json(const EndFact& fact);

// The fact with the most authority; nullptr if there is none. Causes precede consequences; among
// them, the order is: the launcher, a trainer that failed or was preempted, an agent, a trainer
// that finished; then the earliest.
const EndFact* decisive_fact(const EndFacts& facts);

// How an entry of the job ended. `logged`: the end recorded in its log by the last process; used if
// there is no fact, or if a trainer recorded that the job finished, which each rank does
// separately. Otherwise Running while a process writes the log, else Lost. Pure.
RunEnd resolve(const EndFacts& facts, const std::optional<RunEnd>& logged = std::nullopt,
               bool has_writer = false);

// An end.json without facts, from an earlier version or another program, counts as the launcher's.
// Throws Environment if a file cannot be read.
EndFacts read_end_facts(const std::filesystem::path& run_dir);

// How the job ended; nullopt if only its logs have that information. Throws as read_end_facts()
// does.
std::optional<RunEnd> read_run_end(const std::filesystem::path& run_dir);

// Durably writes the file of a witness, replacing its earlier one, and end.json. The run directory
// must exist. Throws Environment.
void record_end(const std::filesystem::path& run_dir, const EndFact& fact);

// Removes all facts and end.json, because the run continues. Throws Environment.
void clear_end(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
