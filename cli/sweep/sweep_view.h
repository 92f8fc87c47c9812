// A sweep as text.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "sweep/sweep_directory.h"

namespace lockstep::cli {

// One line about a trial that has ended.
std::string trial_text(const sweep::SweepDirectory& sweep, const sweep::Trial& trial);

// The counts, the best trial, and how to look at it.
void print_outcome(const sweep::SweepDirectory& sweep, std::ostream& out);

// A table of all trials, best first, and the outcome.
void print_sweep(const sweep::SweepDirectory& sweep, std::ostream& out);

// One row per trial: number, state, by, objectives, parameters, runs, reason.
void export_trials(const sweep::SweepDirectory& sweep, bool csv, std::ostream& out);

}  // namespace lockstep::cli
