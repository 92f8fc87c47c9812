// How a job ended: what each witness saw of it, and which witness is believed. Each writes a small
// file of its own, which is replaced as a whole:
//   <run_dir>/ends/launcher-00000.json  how the processes of the job ended
//   <run_dir>/ends/trainer-00001.json   how rank 1 failed; of rank 0 also: preempted, stopped early
//   <run_dir>/ends/agent-00000.json     a process of node 0 is gone without a word
// A rank that comes to its last step has the `end` of its event log and no file.
// <run_dir>/end.json, for other programs and earlier versions, is what resolve() makes of the
// files.
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
  // Another process was the cause: this rank lost a peer, or this launcher ended ranks that then
  // told themselves how far they got.
  bool is_consequence = false;
  double time = 0;  // unix seconds

  bool operator==(const EndFact&) const = default;
};

using EndFacts = std::vector<EndFact>;

// nullopt when `json` is no fact.
std::optional<EndFact> end_fact_from_json(const Json& json);
Json to_json(const EndFact& fact);

// The fact that is believed; nullptr when there is none. Causes go before consequences, and among
// them the launcher before a trainer that failed or was preempted, before an agent, before a
// trainer that finished; then the earliest.
const EndFact* decisive_fact(const EndFacts& facts);

// How an entry of the job ended. `logged`: by the last process that wrote its log; it counts where
// nothing is told, or where a trainer tells that the job finished, which each rank does by itself.
// Else Running while a process writes the log, else Lost. Pure.
RunEnd resolve(const EndFacts& facts, const std::optional<RunEnd>& logged = std::nullopt,
               bool has_writer = false);

// An end.json without any facts, of an earlier version or a program of one's own, counts as the
// launcher's. Throws Environment when a file cannot be read.
EndFacts read_end_facts(const std::filesystem::path& run_dir);

// How the job ended; nullopt when only its logs can tell. Throws as read_end_facts() does.
std::optional<RunEnd> read_run_end(const std::filesystem::path& run_dir);

// Writes the file of a witness durably, replacing its earlier one, and end.json. The run's
// directory must exist. Throws Environment.
void record_end(const std::filesystem::path& run_dir, const EndFact& fact);

// Removes all facts at once, and end.json: the run goes on. Throws Environment.
void clear_end(const std::filesystem::path& run_dir);

}  // namespace lockstep::tracking
