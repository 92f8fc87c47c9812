// The tools of `lockstep mcp`: requests to the JSON API, with arguments that are validated like a
// run file. See docs/mcp.md.
#pragma once

#include <vector>

#include "dashboard/api/api.h"
#include "dashboard/mcp/mcp_server.h"

namespace lockstep::dashboard {

// `dashboard` must outlive them. They change nothing.
std::vector<McpTool> mcp_tools(Dashboard& dashboard);

}  // namespace lockstep::dashboard
