// A session whose progress a launcher observes.
#pragma once

#include "core/system/progress_page.h"
#include "lockstep/session.h"

namespace lockstep::trainer {

// run_session() that reports this rank's progress in `progress`.
SessionResult run_observed_session(const SessionOptions& options, ProgressPage& progress);

}  // namespace lockstep::trainer
