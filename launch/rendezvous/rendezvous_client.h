// A node's side of the rendezvous: joins the coordinator, reports status and outcome of the
// workers, and receives commands to start, stop and finish. When the coordinator is lost and the others
// continue, it joins the node that replaces it, or its own process does. Never blocks, except in name
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
#include "launch/rendezvous/coordinator_options.h"

namespace lockstep::launch {

struct RendezvousClientOptions {
  RendezvousOptions rendezvous;
  std::string host;
  int num_workers = 1, num_spares = 0;
  bool continues_on_loss = false;
  bool can_lose_coordinator = false;  // the others continue then
  // With one node: where rank 0 listens.
  std::string master_addr;
  int master_port = 0;
  // The endpoint is on this host, and another process uses its port.
  bool endpoint_is_taken = false;
  bool has_moved = false;  // to rendezvous.host and port; NotServed if nothing of the job is there
};

// The coordinator is lost, and another one replaces it.
struct CoordinatorLoss {
  bool had_ranks = false;  // of the current group, on its node
};

// A command of the coordinator, or its loss (a FinishMessage with an error, if none replaces it).
// Takeover: this process replaces it.
using Command = std::variant<NodePlace, GroupState, StopOrder, StackRequest, FinishMessage,
                             CoordinatorLoss, Takeover, NotServed>;

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
  bool has_joined() const { return stage_ == Stage::Joined; }  // messages reach the coordinator
  // Of the workers of this attempt.
  void report_groups(std::vector<GroupEvent> events);

  // With can_lose_coordinator: what has happened to the workers of this node; nullopt: there are none.
  void hold_events(std::optional<std::vector<GroupEvent>> events) { events_ = std::move(events); }
  // After Takeover: where the other nodes connect; then the connection to the new coordinator, or why
  // there is none.
  FileDescriptor take_successor_listener() { return std::move(successor_); }
  void serve(Connection coordinator);
  void decline(const std::string& reason);

  void leave();  // disconnects
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
  void handle(const GroupState& state);
  void handle(const StopOrder& order);
  void handle(const StackRequest& request) { commands_.push_back(request); }
  void handle(const ProbeMessage&) { connection_->send(encode(ProbeReplyMessage{})); }
  void handle(const DroppedMessage&);
  void handle(const HeartbeatMessage&) {}
  void join();
  void send_ready();
  void fail_attempt(const std::string& problem);
  void lose_connection(const std::string& problem, bool is_silent);
  void lose_coordinator(const std::string& problem, bool may_return);
  bool can_follow() const;
  void begin_search(const std::string& problem, bool is_silent);
  void try_candidate();
  void listen_as_successor(const std::string& address);
  void give_up(const Error& error);
  void reject(const Error& error);
  bool may_be_another() const;
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
  // With can_lose_coordinator, of this attempt:
  struct Search {  // for the node that replaces the coordinator
    std::string lost, problem;
    bool is_silent = false;
    std::deque<int> candidates;
  };
  std::optional<JobState> job_;
  int node_ = 0, serving_node_ = 0;
  std::vector<int> lost_nodes_;  // that have served; job_ may not say so yet
  std::optional<std::vector<GroupEvent>> events_;
  std::optional<EndedMessage> ended_;
  bool is_stopping_ = false;
  FileDescriptor successor_;  // listens
  std::optional<Search> search_;

  MasterSocket master_;
  std::string last_status_;  // sent in this attempt
  std::deque<Command> commands_;
  std::vector<std::string> notes_;
};

}  // namespace lockstep::launch
