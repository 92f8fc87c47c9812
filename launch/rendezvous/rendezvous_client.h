// A node's side of the rendezvous: joins the coordinator, reports status and outcome of the
// workers, and receives commands to start, stop and finish. Never blocks, except in name
// resolution. Thread: one.
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
  int num_workers = 1, num_spares = 0;
  bool continues_on_loss = false;
  // With one node: where rank 0 listens.
  std::string master_addr;
  int master_port = 0;
  // The endpoint is on this host, and another process uses its port.
  bool endpoint_is_taken = false;
};

// A command of the coordinator, or its loss (a FinishMessage with an error).
using Command = std::variant<NodePlace, GroupState, StopOrder, StackRequest, FinishMessage>;

class RendezvousClient {
 public:
  // Connects to the endpoint, with retries until the join timeout.
  explicit RendezvousClient(RendezvousClientOptions options);
  // The coordinator is in this process.
  RendezvousClient(RendezvousClientOptions options, Connection coordinator);

  void watch(PollSet& polls);
  // Handles received messages and expired deadlines. Call after each poll.
  void update();
  // The next command; nullopt: none.
  std::optional<Command> next();

  // No worker is running: the next attempt can start. Throws Environment (the port is taken).
  void set_ready();
  // The socket that listens at the address sent with set_ready(). Valid from a NodePlace until the
  // next set_ready().
  MasterSocket take_master() { return std::exchange(master_, {}); }
  void report_attempt(const LaunchReport& report, bool leaves);
  // Sends the status if it differs from the last one.
  void report_status(StatusMessage status);
  // Messages are received by the coordinator.
  bool has_joined() const { return stage_ == Stage::Joined; }
  // Of the workers of this attempt.
  void report_groups(std::vector<GroupEvent> events);
  // Disconnects.
  void leave() { connection_.reset(); }
  bool has_pending() const { return connection_ && connection_->has_pending(); }

  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  enum class Stage { Disconnected, Connecting, Handshake, Joined, Left };

  void connect();
  void try_next_address();
  void receive();
  void handle(std::string_view content);
  void handle(const ChallengeMessage& challenge);
  void handle(const CoordinatorProofMessage& proof);
  void handle(const RefusedMessage& refused);
  void handle(const WelcomeMessage& welcome);
  void handle(const NodePlace& place);
  void handle(const FinishMessage& finish);
  void handle(const GroupState& state) { commands_.push_back(state); }
  void handle(const StopOrder& order) { commands_.push_back(order); }
  void handle(const StackRequest& request) { commands_.push_back(request); }
  void handle(const ProbeMessage&) { connection_->send(encode(ProbeReplyMessage{})); }
  void handle(const DroppedMessage&) { lose_coordinator("it dropped this node", true); }
  void handle(const HeartbeatMessage&) {}
  void join();
  void send_ready();
  void fail_attempt(const std::string& problem);
  void lose_coordinator(const std::string& problem, bool may_return);
  void give_up(const Error& error);
  Error not_a_rendezvous() const;
  std::string coordinator_name() const;

  RendezvousClientOptions options_;
  Stage stage_ = Stage::Disconnected;
  std::optional<Connection> connection_;
  std::vector<SocketAddress> addresses_;
  size_t next_address_ = 0;
  Challenges challenges_;
  std::string coordinator_host_;
  std::string last_problem_;
  PollSet::Clock::time_point give_up_at_, retry_at_, stage_deadline_, last_alive_, last_update_;
  bool is_local_ = false, has_joined_before_ = false, is_welcome_ = false, is_ready_for_io_ = false;
  bool is_ready_ = false, is_in_group_ = false;
  bool has_finished_ = false;  // the job; the workers of this node are still running
  MasterSocket master_;
  std::string last_status_;  // sent in this attempt
  std::deque<Command> commands_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
