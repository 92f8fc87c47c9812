// Opens a tracker with a parsed `tracking` section.
#pragma once

#include "lockstep/tracker.h"
#include "tracking/agent/forwarding.h"
#include "tracking/config/tracking_config.h"

namespace lockstep::tracking {

// `options.tracking` is not used. `forwarding`: how logs are sent between nodes without a shared
// file system.
Tracker open_tracker(const TrackerOptions& options, const TrackingConfig& config,
                     const Forwarding& forwarding);

}  // namespace lockstep::tracking
