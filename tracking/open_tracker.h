// Opens a tracker with a section `tracking` that is parsed already.
#pragma once

#include "lockstep/tracker.h"
#include "tracking/agent/forwarding.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

// `options.tracking` is not used. `forwarding`: how logs travel between nodes without a shared file
// system.
Tracker open_tracker(const TrackerOptions& options, const TrackingConfig& config,
                     const Forwarding& forwarding);

}  // namespace lockstep::tracking
