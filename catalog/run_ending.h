// How a run and its ranks ended: tracking/runs/end_facts.h decides, from the facts and the logs.
#pragma once

#include "catalog/index/run_summary.h"

namespace lockstep {

// Of one rank, or for nullptr, of a job without an event log. Beyond the state it means something
// only where has_ended().
RunEnd end_of_rank(const RunSummary& run, const SourceSummary* rank);

// Reads the facts, and sets what `run` and its ranks say about their end. Its sources must be
// there. A run is as well as the rank that fared worst.
void add_end(RunSummary& run);

}  // namespace lockstep
