// The requests of machines that send their runs (tracking/copies/run_sender.h).
#pragma once

#include <string>

#include "dashboard/api/api.h"
#include "tracking/copies/run_receiver.h"

namespace lockstep::dashboard {

// All paths of these requests begin with this.
inline constexpr const char* kCollectPath = "/api/collect/";

// `sender`: the name of the token of the request. Errors become error responses.
ApiResponse handle_received(tracking::RunReceiver& receiver, const ApiRequest& request,
                            const std::string& sender);

}  // namespace lockstep::dashboard
