// Accepts connections, authenticates them with the job's token and passes on those that have sent a
// join request. Unauthenticated connections are limited in time, memory and number; when all places
// are taken, the oldest one is dropped after a short time, so that they cannot keep nodes out.
// Thread: one.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/protocol/connection.h"
#include "launch/protocol/messages.h"

namespace lockstep::launch {

class ConnectionAcceptor {
 public:
  struct Arrival {
    Connection connection;
    JoinMessage join;
  };

  // `listener`: listening and non-blocking; if closed, no connection is accepted.
  ConnectionAcceptor(FileDescriptor listener, std::string token);

  void watch(PollSet& polls);
  // Processes received data and new connections. Call after each poll.
  void update();
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  // Rejected hosts with the reason, once per host and kind of reason; bounded in number.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct Client {
    Connection connection;
    Challenges challenges;
    PollSet::Clock::time_point deadline;
    std::string host;
    bool proved = false;
    bool is_ready = false;  // to be read or written
  };

  void make_room();
  void accept_some();
  void start_handshake(FileDescriptor fd);
  // These return whether the client stays in unauthenticated_.
  bool receive(Client& client);
  bool handle(Client& client, std::string_view content);
  bool verify_proof(Client& client, const NodeProofMessage& proof);
  void reject(Client& client, const Error& error);
  void note(const std::string& host, const std::string& problem, const std::string& detail = {});

  FileDescriptor listener_;
  std::string token_;
  bool accept_ready_ = false;
  PollSet::Clock::time_point paused_until_{};  // no descriptors or places were left
  std::list<Client> unauthenticated_;          // the oldest first
  std::vector<Arrival> arrivals_;
  std::vector<std::string> notes_, noted_;
};

}  // namespace lockstep::launch
