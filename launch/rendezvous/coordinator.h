// Controls the job for all launchers: which nodes take part and in which order, when an attempt
// starts and stops, whether it is restarted, and the outcome of the job. It communicates with every
// node, including its own, through connections, and never blocks on one. Thread: one.
//
// An attempt starts when the maximum number of nodes has joined, or some time after the minimum
// has. It is stopped on all nodes when a worker fails or a node is lost. The next one starts with
// the nodes that are left, possibly after a delay, unless the input was wrong or no restart is
// left. Nodes that join during an attempt wait for the next one. With continues_on_loss, ranks that are
// killed, and lost nodes, do not stop the attempt as long as others can continue. If the node of the
// coordinator itself is lost, another launcher makes a Coordinator that continues (Takeover).
#pragma once

#include <list>
#include <optional>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/hangs/status_judge.h"
#include "launch/protocol/messages.h"
#include "launch/rendezvous/connection_acceptor.h"
#include "launch/rendezvous/coordinator_options.h"
#include "launch/rendezvous/job_claims.h"
#include "launch/rendezvous/node_record.h"
#include "launch/rendezvous/regrouping.h"
#include "launch/workers/restart_policy.h"

namespace lockstep::launch {

class Coordinator {
 public:
  // `own`: the connection to the node of this process, which needs no authentication. `judge` must
  // outlive this.
  Coordinator(CoordinatorOptions options, FileDescriptor listener, Connection own,
              StatusJudge& judge);
  // Replaces a lost one: waits until the other nodes have joined, then claims the job.
  Coordinator(CoordinatorOptions options, FileDescriptor listener, Connection own,
              StatusJudge& judge, Takeover takeover);

  void watch(PollSet& polls);
  // Handles received messages and expired deadlines. Call after each poll.
  void update();

  // Ends the job because this process received `signal`: every node stops. In a takeover: when claimed.
  void interrupt(int signal);
  // This process cannot take part in another attempt: ends the job if there is to be one.
  void give_up_restart(const Error& error);
  // The current attempt is the last one.
  void forbid_restart() { restarts_.forbid(); }

  // The job has ended, and every node has been notified or the time for it has expired.
  bool is_done() const;
  // Others continue the job without this node: its workers must be killed.
  bool has_given_way() const { return has_given_way_; }
  // Messages for the user since the last call.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  enum class Phase { TakingOver, Gathering, Running, Finished };
  using Node = NodeRecord;

  void defer_duplicate(ConnectionAcceptor::Arrival arrival, Node& other);
  void resolve_deferred();
  Node* node_with_rank_of(const JoinMessage& join);
  void admit(ConnectionAcceptor::Arrival arrival);
  void refuse(Node& node, const Error& error);
  void verify_node_rank(const JoinMessage& join) const;
  std::vector<int> places_for(const JoinMessage& join) const;
  void expect(const Node& node);
  void take_in_nodes();
  void take_in(Node& node, int number);
  void stop_joining(Node& node);
  void end_join(Node& node, const EndedMessage& message);
  void receive(Node& node);
  void handle(Node& node, const JoinMessage& join);
  void handle(Node& node, const ReadyMessage& ready);
  void handle(Node& node, const StatusMessage& status);
  void handle(Node& node, const EndedMessage& ended);
  void handle(Node& node, const GroupEventsMessage& message);
  void handle(Node& node, const ProbeReplyMessage&) { node.has_responded = true; }
  void handle(Node&, const HeartbeatMessage&) {}
  void handle(Node&, const NodeProofMessage&) {}  // handled by the acceptor
  void judge_status();
  void drop_silent_nodes();
  void drop_node(Node& node, const std::string& reason);
  void drop_closed_nodes();
  void keep_alive();

  void begin_gathering(std::chrono::milliseconds delay = {});
  void gather();
  std::vector<Node*> ready_nodes();
  void start(std::vector<Node*> chosen);
  static std::string address_of(const Node& node, const std::vector<Node*>& chosen);
  void begin_groups(const std::vector<Node*>& chosen);
  void begin_job(const std::vector<Node*>& chosen);
  void update_job();
  void announce_job();
  void admit_returning(Node& node);
  void adopt_newer(const JobState& job);
  bool is_complete() const;
  void take_over();
  void move_rendezvous();
  void lose_missing(const Takeover& takeover);
  void repeat_events(Node& node);
  bool claim(const std::string& lost);
  std::vector<int> group_numbers() const;
  void give_way(const std::string& reason);
  void handle(Node& node, const GroupEvent& event);
  bool continues_without(const Node& node, const std::string& reason);
  std::chrono::milliseconds silence_limit() const;
  void update_groups();
  void send_groups(Node& node, const std::vector<Regrouping::Answer>& answers);
  void stop_group();
  void conclude();
  void fail_to_start(const Error& error);
  void finish(LaunchReport report);
  void add_note(std::string note) { notes_.push_back(std::move(note)); }
  void note_missing_nodes(int num_ready);

  CoordinatorOptions options_;
  ConnectionAcceptor acceptor_;
  std::list<Node> nodes_;
  std::vector<ConnectionAcceptor::Arrival> deferred_;  // have the number of a connected node
  std::vector<std::string> notes_;
  int num_arrivals_ = 0;

  Phase phase_ = Phase::Gathering;
  PollSet::Clock::time_point start_after_, gather_deadline_, gather_note_, last_alive_,
      last_update_;
  std::optional<PollSet::Clock::time_point> last_call_;
  bool all_nodes_present_ = false;  // no node was lost: no need to wait for more
  RestartPolicy restarts_;

  LaunchReport attempt_;  // of the current attempt, so far
  bool stopping_ = false;
  std::optional<Regrouping> regrouping_;  // of the current attempt, with continues_on_loss
  std::optional<JobState> job_;           // of it, if another node can take it over
  std::optional<JobClaims> claims_;       // the same
  std::optional<Takeover> takeover_;      // in Phase::TakingOver
  PollSet::Clock::time_point takeover_deadline_;
  bool has_taken_over_ = false, has_given_way_ = false;
  StatusJudge& judge_;
  bool has_status_ = false;  // that has not been judged

  std::optional<FinishMessage> finish_;
  PollSet::Clock::time_point finish_deadline_;
};

}  // namespace lockstep::launch
