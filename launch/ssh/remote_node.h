// The part of `lockstep launch --hostfile` on a host: starts the launcher of this node as it is
// told on standard input (launch/environment/node_order.h), and ends it when told so or when
// whoever gave the order is gone: the input ends (ssh lost its connection, its launch was killed),
// or nothing came for a minute.
#pragma once

#include <string>

namespace lockstep::launch {

// `program`: this `lockstep`. Returns the launcher's exit code, 128 + N when signal N killed it.
// Throws Config (no order, another version, no such directory) or Environment. Thread: the main
// one.
int run_remote_node(const std::string& program);

}  // namespace lockstep::launch
