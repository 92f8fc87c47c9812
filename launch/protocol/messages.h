// The messages between launchers: one struct per message, and their encoding as the content of a
// frame. The wire names are defined in messages.cpp only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launch/environment/node_place.h"
#include "launch/hangs/rank_view.h"
#include "launch/hangs/status_judge.h"
#include "launch/protocol/group_messages.h"
#include "launch/protocol/rendezvous_options.h"
#include "launch/report/launch_report.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// Version of this set of messages. Challenge and proof can be read from launchers of any version.
inline constexpr int kRendezvousProtocol = 1;

// Coordinator to every new connection.
struct ChallengeMessage {
  int protocol = kRendezvousProtocol;
  std::string version;  // of Lockstep
  std::string challenge;
};

// The node's response, with its own challenge.
struct NodeProofMessage {
  int protocol = kRendezvousProtocol;
  std::string version;
  std::string challenge;
  std::string proof;
};

struct CoordinatorProofMessage {
  std::string proof;
};

// The workers of a node have exited.
struct EndedMessage {
  LaunchReport report;
  int64_t time_us = 0;  // time of sending, by the clock of the node
  bool leaves = false;  // the node leaves the job, because of report.interrupted_by
};

// A node whose coordinator is lost, with its number: what it knows of the job, and what has happened to
// its workers.
struct ReturningNode {
  int node = 0;
  JobState job;
  std::vector<GroupEvent> events = {};
  std::optional<EndedMessage> ended = {};
};

// A node requests to join.
struct JoinMessage {
  std::string host;  // name in messages
  int num_workers = 1;
  int num_spares = 0;
  std::optional<int> node_rank;
  bool serves = false;  // it is the coordinator's node
  std::vector<Agreement> agreements;
  std::optional<ReturningNode> returning = {};
};

// The node has joined.
struct WelcomeMessage {
  std::string host;  // of the coordinator
};

// The node is rejected.
struct RefusedMessage {
  ErrorKind kind = ErrorKind::Environment;  // or Config
  std::string message;
};

// A node can start workers. Where rank 0 would listen if this becomes node 0.
struct ReadyMessage {
  std::string address;  // empty (coordinator's node only): all addresses
  int port = 0;
  int successor_port = 0;  // where its launcher listens if it becomes the coordinator; 0: nowhere
};

// With --on-rank-loss continue: what happened to the workers of a node. The coordinator sends a
// GroupState.
struct GroupEventsMessage {
  std::vector<GroupEvent> events;
};

// The node must stop its workers.
struct StopOrder {};

// The state of the ranks of a node.
struct StatusMessage {
  std::vector<RankView> ranks;
};

// The job has ended or, with an error, this node is rejected.
struct FinishMessage {
  LaunchReport report;
  std::optional<ErrorReport> error;
};

struct ProbeMessage {};       // requests a ProbeReplyMessage
struct ProbeReplyMessage {};  // the response to a probe
struct DroppedMessage {};     // the coordinator has dropped this node
struct HeartbeatMessage {};   // heartbeat, from either side

using NodeMessage =
    std::variant<NodeProofMessage, JoinMessage, ReadyMessage, StatusMessage, GroupEventsMessage,
                 EndedMessage, ProbeReplyMessage, HeartbeatMessage>;
// NodePlace: the node must start its workers of an attempt.
using CoordinatorMessage =
    std::variant<ChallengeMessage, CoordinatorProofMessage, RefusedMessage, WelcomeMessage,
                 NodePlace, GroupState, StopOrder, StackRequest, ProbeMessage, DroppedMessage,
                 FinishMessage, HeartbeatMessage>;

std::string encode(NodeMessage message);
std::string encode(CoordinatorMessage message);

// nullopt: a message of an unknown type (of a newer version). Throws Environment if the message is
// malformed, or a field is missing or invalid.
std::optional<NodeMessage> decode_node_message(std::string_view content);
std::optional<CoordinatorMessage> decode_coordinator_message(std::string_view content);

// The part that every node gets: the causes, not the outcome of each rank of a large job.
LaunchReport outline_of(LaunchReport report);

// Merges the report of a node, named `label`, into the report of the attempt.
void add_to(LaunchReport& attempt, const EndedMessage& message, const std::string& label,
            bool is_own);

}  // namespace lockstep::launch
