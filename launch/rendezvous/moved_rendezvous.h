// Where the rendezvous of a job is served after the coordinator's node was lost, with --on-rank-loss continue:
// a file in run.dir, which all nodes share. Launchers that start later know only the endpoint. Thread: one.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "launch/protocol/address.h"

namespace lockstep::launch {

// Nothing serves the rendezvous where a file says; a command of the RendezvousClient.
struct NotServed {};

class MovedRendezvous {
 public:
  // <runs_dir>/.lockstep-<host>-<port>.coordinator, of an endpoint.
  MovedRendezvous(const std::filesystem::path& runs_dir, const Endpoint& endpoint);

  // Throws Environment.
  void write(const Endpoint& moved_to) const;
  void remove() const;
  // nullopt: it has not moved, or to where find() has said before ignore() was called. On a network file
  // system, a new file may be seen late: call it again.
  std::optional<Endpoint> find();
  void ignore() { ignored_ = found_; }

 private:
  std::filesystem::path file_;
  std::string found_, ignored_;
};

}  // namespace lockstep::launch
