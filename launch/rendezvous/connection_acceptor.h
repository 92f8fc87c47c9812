// Where nodes knock: accepts connections, asks for proof of the job's token, and passes on those
// that gave it and said what they want. Strangers have little time, little memory and a bounded
// number of places; when those are taken, the one that has waited longest has to go soon, so
// that strangers cannot keep nodes out. Thread: one.
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

  // `listener`: listening, not blocking; a closed one lets nobody in.
  ConnectionAcceptor(FileDescriptor listener, std::string token);

  void watch(PollSet& polls);
  // Takes what came since the last turn. Call after each turn of the loop.
  void update();
  std::vector<Arrival> take_arrivals() { return std::exchange(arrivals_, {}); }
  // Who was turned away and why, once for each kind of reason and host; bounded.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  struct UnauthenticatedPeer {
    Connection connection;
    Challenges challenges;
    PollSet::Clock::time_point deadline;
    std::string host;
    bool proved = false;
    bool has_news = false;
  };

  void make_room();
  void accept_some();
  void greet(FileDescriptor fd);
  // Whether the stranger stays a stranger for now.
  bool hear(UnauthenticatedPeer& peer);
  bool take(UnauthenticatedPeer& peer, std::string_view content);
  bool take_proof(UnauthenticatedPeer& peer, const NodeProofMessage& proof);
  void reject(UnauthenticatedPeer& peer, const Error& error);
  void note(const std::string& host, const std::string& problem, const std::string& detail = {});

  FileDescriptor listener_;
  std::string token_;
  bool accept_ready_ = false;
  PollSet::Clock::time_point closed_until_{};  // no descriptors or places were left
  std::list<UnauthenticatedPeer> unauthenticated_;              // the longest waiting first
  std::vector<Arrival> arrivals_;
  std::vector<std::string> notes_, noted_;
};

}  // namespace lockstep::launch
