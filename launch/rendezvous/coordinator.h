// The one launcher that decides for all: who takes part, in which order, when an attempt starts,
// when it is stopped, whether there is another one, and how the job ended. It hears every node, its
// own among them, through connections and never waits for one. Thread: one.
//
// An attempt starts when the most nodes came, or some time after the least number came. It is
// stopped everywhere when a worker fails or a node is lost. Then the next one starts with whoever
// is there, perhaps after a pause, unless the input was wrong or no restart is left. Nodes that
// come while an attempt runs wait for the next one.
#pragma once

#include <list>
#include <string>
#include <vector>

#include "core/system/poll_set.h"
#include "launch/hangs/status_judge.h"
#include "launch/protocol/messages.h"
#include "launch/protocol/rendezvous_options.h"
#include "launch/rendezvous/connection_acceptor.h"
#include "launch/rendezvous/restart_policy.h"

namespace lockstep::launch {

struct CoordinatorOptions {
  RendezvousOptions rendezvous;
  RestartOptions restarts;
  std::string run_id;
  std::string host;  // of this node, in messages
};

class Coordinator {
 public:
  // `own`: the connection to the node of this process, which is as good as one with the token.
  // `judge` outlives this.
  Coordinator(CoordinatorOptions options, FileDescriptor listener, Connection own,
              StatusJudge& judge);

  void watch(PollSet& polls);
  // Takes what came, and does what is due. Call after each turn of the loop.
  void update();

  // The job ends because this process was told so: every node stops.
  void interrupt(int signal);
  // What runs is the last attempt.
  void forbid_restart() { restarts_.forbid(); }

  // The job has ended, and every node was told, or had the time to hear it.
  bool is_done() const;
  // What the user should read; each once.
  std::vector<std::string> take_notes() { return std::exchange(notes_, {}); }

 private:
  enum class Phase { Gathering, Running, Finished };
  struct Node {
    Connection connection;
    std::optional<JoinMessage> join = {};
    std::string label = {};  // "hostB (10.0.0.2)"
    int arrival = 0;
    bool is_own = false, has_news = false;
    std::optional<ReadyMessage> ready = {};
    bool in_group = false;  // of the attempt that runs
    int node_rank = 0;      // in it
    bool has_ended = false;
    std::vector<RankView> ranks = {};  // their last status
    std::optional<PollSet::Clock::time_point> status_came = {};
    bool has_answered = false;  // since it was probed
    bool is_lost = false;       // lose() was called: nothing more is heard from it
  };

  void doubt(ConnectionAcceptor::Arrival arrival, Node& other);
  void settle_doubts();
  Node* node_with_rank_of(const JoinMessage& join);
  void admit(ConnectionAcceptor::Arrival arrival);
  void verify_node_rank(const JoinMessage& join) const;
  void hear(Node& node);
  void take(Node& node, const JoinMessage& join);
  void take(Node& node, const ReadyMessage& ready);
  void take(Node& node, const StatusMessage& status);
  void take(Node& node, const EndedMessage& ended);
  void take(Node& node, const HereMessage&) { node.has_answered = true; }
  void take(Node&, const AliveMessage&) {}
  void take(Node&, const NodeProofMessage&) {}  // the door has heard it
  void judge_status();
  void drop_silent_nodes();
  void lose(Node& node, const std::string& reason);
  void drop_closed_nodes();
  void keep_alive();

  void begin_to_gather(std::chrono::milliseconds delay = {});
  void gather();
  std::vector<Node*> ready_nodes();
  void start(std::vector<Node*> chosen);
  static std::string address_of_first(const std::vector<Node*>& chosen);
  void stop_group();
  void conclude();
  void finish(LaunchReport report);
  void say(std::string note) { notes_.push_back(std::move(note)); }
  void say_who_came(int num_ready);

  CoordinatorOptions options_;
  ConnectionAcceptor door_;
  std::list<Node> nodes_;
  std::vector<ConnectionAcceptor::Arrival> doubtful_;  // newcomers with the number of a node that may be gone
  std::vector<std::string> notes_;
  int num_arrivals_ = 0;

  Phase phase_ = Phase::Gathering;
  PollSet::Clock::time_point start_after_, gather_deadline_, gather_note_, last_alive_,
      last_update_;
  std::optional<PollSet::Clock::time_point> last_call_;
  bool everyone_is_here_ = false;  // nobody was lost: no call for more nodes
  RestartPolicy restarts_;

  LaunchReport attempt_;  // what is known of the one that runs
  bool stopping_ = false;
  StatusJudge& judge_;
  bool has_status_ = false;  // that was not judged

  std::optional<FinishMessage> finish_;
  PollSet::Clock::time_point finish_deadline_;
};

}  // namespace lockstep::launch
