// Decides whether this node serves the rendezvous or only connects to it.
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

// `judge` must outlive the result. With one node, no port is opened. Otherwise this node serves if
// options.serves is true or, when it is not set, if the endpoint's address is local and its port is
// free; if the port is taken, another launcher of this host serves. `moved_to`: it is served there
// instead; the client says NotServed if it is not. Throws Environment (port taken, ...).
RendezvousRole open_rendezvous(const LaunchOptions& options, StatusJudge& judge,
                               const std::optional<Endpoint>& moved_to = {});

// nullopt: the rendezvous of this job cannot move.
std::optional<MovedRendezvous> moved_rendezvous(const LaunchOptions& options);

// The coordinator of this process from now on, which replaces a lost one; connects `client` to it.
std::unique_ptr<Coordinator> replace_coordinator(const LaunchOptions& options,
                                                 const Takeover& takeover, RendezvousClient& client,
                                                 StatusJudge& judge);

}  // namespace lockstep::launch
