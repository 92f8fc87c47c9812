// What launchers say to each other, as values. A node says: join, ready, status, ended, here,
// alive. The coordinator says: welcome, start, stop, answer, probe, dropped, finish, alive,
// refused. to_json() and the parsers are each other's inverse. The parsers throw Environment for a
// message that lacks something or has it in the wrong form.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "launch/launch_report.h"
#include "launch/rendezvous/rendezvous_options.h"
#include "launch/worker_env.h"

namespace lockstep {

inline constexpr int kRendezvousProtocol = 1;

// A node asks to take part.
struct JoinMessage {
  std::string host;  // its name in messages
  int num_workers = 1;
  std::optional<int> node_rank;
  bool serves = false;  // it is the node of the coordinator
  std::vector<Agreement> agreements;
};

// A node can start: this is where rank 0 would listen if it becomes node 0.
struct ReadyMessage {
  std::string address;  // empty: everywhere; the coordinator knows how others reach its own node
  int port = 0;
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

nlohmann::json to_json(const JoinMessage& message);
nlohmann::json to_json(const ReadyMessage& message);
nlohmann::json to_json(const NodePlace& start);
nlohmann::json to_json(const EndedMessage& message);
nlohmann::json to_json(const FinishMessage& message);
nlohmann::json refusal(const Error& error);

JoinMessage parse_join(const nlohmann::json& message);
ReadyMessage parse_ready(const nlohmann::json& message);
NodePlace parse_start(const nlohmann::json& message);
EndedMessage parse_ended(const nlohmann::json& message);
FinishMessage parse_finish(const nlohmann::json& message);
Error parse_refusal(const nlohmann::json& message);

// Adds what `message` tells of a node, called `label`, to what is known of the attempt.
void add_to(LaunchReport& attempt, const EndedMessage& message, const std::string& label,
            bool is_own);

// Of any message; empty when it has none.
std::string type_of(const nlohmann::json& message);

}  // namespace lockstep
