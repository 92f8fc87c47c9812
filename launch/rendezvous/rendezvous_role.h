// Decides which part this node has in the rendezvous: it serves it, or connects to it.
#pragma once

#include <memory>

#include "launch/options/launch_options.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/rendezvous_client.h"

namespace lockstep::launch {

struct RendezvousRole {
  std::unique_ptr<Coordinator> coordinator;  // of the node that serves
  std::unique_ptr<RendezvousClient> client;
};

// `judge` outlives it. With one node nothing listens. Otherwise the node serves that was told to
// (options.serves), else the one whose own address the endpoint is; where the port is taken,
// another launcher of this host serves already. Throws Environment (the port is taken, ...).
RendezvousRole open_rendezvous(const LaunchOptions& options, StatusJudge& judge);

}  // namespace lockstep::launch
