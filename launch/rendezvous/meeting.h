// Decides which part this node has in the rendezvous: it serves it, or connects to it.
#pragma once

#include <memory>

#include "launch/options/launch_options.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/member.h"

namespace lockstep::launch {

struct Meeting {
  std::unique_ptr<Coordinator> coordinator;  // of the node that serves
  std::unique_ptr<Member> member;
};

// `judge` outlives it. With one node nothing listens. Otherwise the node serves that was told to
// (options.serves), else the one whose own address the endpoint is; where the port is taken,
// another launcher of this host serves already. Throws Environment (the port is taken, ...).
Meeting open_meeting(const LaunchOptions& options, StatusJudge& judge);

}  // namespace lockstep::launch
