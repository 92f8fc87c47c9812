// `lockstep launch-node`, which `lockstep launch --hostfile` runs on each host: starts this node's
// launcher from the order on standard input (launch/environment/node_order.h). Stops it on request
// and when the launch is gone: the input was closed (ssh lost its connection, the launch was
// killed) or has been silent for a minute.
#pragma once

#include <string>

namespace lockstep::launch {

// `program`: path of this `lockstep`. Returns the launcher's exit code, or 128 + N if signal N
// killed it. Throws Config (invalid order, another version, no such directory) or Environment.
// Thread: the main one.
int run_remote_node(const std::string& program);

}  // namespace lockstep::launch
