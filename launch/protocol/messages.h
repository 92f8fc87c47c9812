// What launchers say to each other: one struct per message, and the codec between a message and the
// content of a frame. The words of the wire stand in messages.cpp only.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "launch/environment/node_place.h"
#include "launch/hangs/rank_view.h"
#include "launch/hangs/status_judge.h"
#include "launch/protocol/rendezvous_options.h"
#include "launch/report/launch_report.h"
#include "lockstep/error.h"

namespace lockstep::launch {

// Counts the versions of this file's set of messages. Challenge and proof are read from peers of
// every version, whatever else they have in them.
inline constexpr int kRendezvousProtocol = 1;

// The coordinator greets whoever connects.
struct ChallengeMessage {
  int protocol = kRendezvousProtocol;
  std::string version;  // of Lockstep
  std::string challenge;
};

// A node's answer to it, with a challenge of its own.
struct NodeProofMessage {
  int protocol = kRendezvousProtocol;
  std::string version;
  std::string challenge;
  std::string proof;
};

struct CoordinatorProofMessage {
  std::string proof;
};

// A node asks to take part.
struct JoinMessage {
  std::string host;  // its name in messages
  int num_workers = 1;
  std::optional<int> node_rank;
  bool serves = false;  // it is the node of the coordinator
  std::vector<Agreement> agreements;
};

// It does.
struct WelcomeMessage {
  std::string host;  // of the coordinator
};

// It may not.
struct RefusedMessage {
  ErrorKind kind = ErrorKind::Environment;  // or Config
  std::string message;
};

// A node can start: this is where rank 0 would listen if it becomes node 0.
struct ReadyMessage {
  std::string address;  // empty: everywhere; the coordinator knows how others reach its own node
  int port = 0;
};

// A node stops its workers.
struct StopOrder {};

// What the ranks of a node are doing.
struct StatusMessage {
  std::vector<RankView> ranks;
};

// The workers of a node have ended.
struct EndedMessage {
  LaunchReport report;
  int64_t time_us = 0;  // now, by the clock of the node
  bool leaves = false;  // the node goes, because of report.interrupted_by
};

// The job is over, or (with an error) this node may not take part.
struct FinishMessage {
  LaunchReport report;
  std::optional<ErrorReport> error;
};

struct ProbeMessage {};    // are you there?
struct HereMessage {};     // the answer to it
struct DroppedMessage {};  // the coordinator has given this node up
struct AliveMessage {};    // from either side, so that the other one hears something

using NodeMessage = std::variant<NodeProofMessage, JoinMessage, ReadyMessage, StatusMessage,
                                 EndedMessage, HereMessage, AliveMessage>;
// NodePlace: the workers of an attempt are to be started.
using CoordinatorMessage = std::variant<ChallengeMessage, CoordinatorProofMessage, RefusedMessage,
                                        WelcomeMessage, NodePlace, StopOrder, StackRequest,
                                        ProbeMessage, DroppedMessage, FinishMessage, AliveMessage>;

std::string encode(NodeMessage message);
std::string encode(CoordinatorMessage message);

// nullopt: a message of a type that this version does not know. Throw Environment for what is no
// message, and for one that lacks something or has it in the wrong form.
std::optional<NodeMessage> decode_node_message(std::string_view content);
std::optional<CoordinatorMessage> decode_coordinator_message(std::string_view content);

// What every node should know: the causes, not how each rank of a large job ended.
LaunchReport outline_of(LaunchReport report);

// Adds what `message` tells of a node, called `label`, to what is known of the attempt.
void add_to(LaunchReport& attempt, const EndedMessage& message, const std::string& label,
            bool is_own);

}  // namespace lockstep::launch
