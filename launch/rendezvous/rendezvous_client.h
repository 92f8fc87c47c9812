// The side of a node: joins the coordinator, tells it how the workers ended, and hears from it when
// to start, to stop and to end. Never waits, except for the name service. Thread: one.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "core/system/poll_set.h"
#include "core/system/socket_address.h"
#include "launch/protocol/connection.h"
#include "launch/protocol/master_socket.h"
#include "launch/protocol/messages.h"

namespace lockstep::launch {

struct RendezvousClientOptions {
  RendezvousOptions rendezvous;
  std::string host;
  int num_workers = 1;
  // With one node: where rank 0 listens.
  std::string master_addr;
  int master_port = 0;
  // The endpoint is at this host, where another process has its port.
  bool endpoint_is_taken = false;
};

// What the coordinator wants, or that there is none any more (a FinishMessage with an error).
using Order = std::variant<NodePlace, StopOrder, StackRequest, FinishMessage>;

class RendezvousClient {
 public:
  // Connects to the endpoint, again and again until the join timeout.
  explicit RendezvousClient(RendezvousClientOptions options);
  // The coordinator is in this process.
  RendezvousClient(RendezvousClientOptions options, Connection coordinator);

  void watch(PollSet& polls);
  // Takes what came, and does what is due. Call after each turn of the loop.
  void update();
  // What is to be done next, in order.
  std::optional<Order> next();

  // No workers run: the next attempt can start. Throws Environment (the port is taken).
  void set_ready();
  // The socket that listens where the others were told; valid after a NodePlace, to be taken before
  // the next set_ready().
  MasterSocket take_master() { return std::exchange(master_, {}); }
  void report_attempt(const LaunchReport& report, bool leaves);
  // Sent when it differs from the last one.
  void report_status(StatusMessage status);
  // Nothing more will be said.
  void leave() { connection_.reset(); }
  bool has_pending() const { return connection_ && connection_->has_pending(); }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  enum class Stage { Away, Connecting, Greeting, Joined, Gone };

  void connect();
  void try_next_address();
  void hear();
  void take(std::string_view content);
  void take(const ChallengeMessage& challenge);
  void take(const CoordinatorProofMessage& proof);
  void take(const RefusedMessage& refused);
  void take(const WelcomeMessage& welcome);
  void take(const NodePlace& place);
  void take(const FinishMessage& finish);
  void take(const StopOrder& order) { orders_.push_back(order); }
  void take(const StackRequest& request) { orders_.push_back(request); }
  void take(const ProbeMessage&) { connection_->send(encode(HereMessage{})); }
  void take(const DroppedMessage&) { lose_coordinator("it has dropped this node", true); }
  void take(const AliveMessage&) {}
  void join();
  void say_ready();
  void fail_attempt(const std::string& problem);
  void lose_coordinator(const std::string& problem, bool may_return);
  void give_up(const Error& error);
  Error no_rendezvous() const;
  std::string coordinator_name() const;

  RendezvousClientOptions options_;
  Stage stage_ = Stage::Away;
  std::optional<Connection> connection_;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  Challenges challenges_;
  std::string coordinator_host_;
  std::string last_problem_;
  PollSet::Clock::time_point give_up_at_, retry_at_, stage_deadline_, last_alive_, last_update_;
  bool is_local_ = false, has_joined_before_ = false, is_welcome_ = false, has_news_ = false;
  bool is_ready_ = false, is_in_group_ = false;
  MasterSocket master_;
  std::string last_status_;  // that was sent in this attempt
  std::deque<Order> orders_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
