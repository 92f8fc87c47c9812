#include "launch/rendezvous/coordinator.h"

#include <fmt/format.h>

#include <algorithm>
#include <climits>
#include <tuple>

#include "core/system/local_address.h"
#include "launch/protocol/address.h"

namespace lockstep::launch {
namespace {

using Clock = PollSet::Clock;

constexpr std::chrono::seconds kFinishTimeout{5};  // to deliver the final messages
constexpr std::chrono::seconds kNoteDelay{3};      // until missing nodes are reported
constexpr int kChecksPerTimeout = 4;               // of silent nodes, without other events
constexpr std::chrono::milliseconds kTakeoverCheck{50};

double in_seconds(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

// The first line of the error of the rank that failed first; empty if it reported none.
std::string reason_of(const LaunchReport& attempt) {
  const auto* cause = attempt.cause();
  const auto detail = cause && cause->error ? cause->detail() : std::vector<std::string>();
  return detail.empty() ? "" : "\n  " + detail.front();
}

}  // namespace

Coordinator::Coordinator(CoordinatorOptions options, FileDescriptor listener, Connection own,
                         StatusJudge& judge)
    : options_(std::move(options)),
      acceptor_(std::move(listener), options_.rendezvous.token),
      last_alive_(Clock::now()),
      last_update_(last_alive_),
      restarts_(options_.restarts),
      judge_(judge) {
  auto& node = nodes_.emplace_back(Node{.connection = std::move(own)});
  node.is_own = true;
  begin_gathering();
}

void Coordinator::watch(PollSet& polls) {
  acceptor_.watch(polls);
  for (auto& node : nodes_)
    if (node.connection.is_open())
      polls.watch(node.connection.poll_request(), [&](short) { node.is_ready_for_io = true; });
    else
      polls.wake_at(Clock::now());
  polls.wake_at(last_alive_ + options_.rendezvous.keep_alive);
  polls.wake_at(last_update_ + options_.rendezvous.silence_timeout() / kChecksPerTimeout);
  if (phase_ == Phase::Gathering)
    polls.wake_at(
        std::max(start_after_, std::min(gather_note_, last_call_.value_or(gather_deadline_))));
  if (phase_ == Phase::Finished) polls.wake_at(finish_deadline_);
  if (phase_ == Phase::TakingOver) polls.wake_at(Clock::now() + kTakeoverCheck);
}

void Coordinator::update() {
  acceptor_.update();
  // In a takeover, the acceptor finds connections that were closed since they were not served in time.
  for (auto& note : acceptor_.take_notes())
    if (phase_ != Phase::TakingOver) add_note(std::move(note));
  for (auto& arrival : acceptor_.take_arrivals())
    if (auto* other = node_with_rank_of(arrival.join))
      defer_duplicate(std::move(arrival), *other);
    else
      admit(std::move(arrival));
  for (auto& node : nodes_)
    if (std::exchange(node.is_ready_for_io, false)) receive(node);
  drop_silent_nodes();
  drop_closed_nodes();
  if (phase_ == Phase::TakingOver && is_complete()) take_over();
  update_groups();
  resolve_deferred();
  take_in_nodes();
  keep_alive();
  judge_status();
  if (phase_ == Phase::Gathering) gather();
}

void Coordinator::receive(Node& node) {
  node.connection.transfer();
  try {
    while (const auto content = node.connection.next()) {
      const auto message = decode_node_message(*content);
      if (!node.join && !(message && std::holds_alternative<JoinMessage>(*message)))
        throw environment_error("message received before it joined");
      if (message) std::visit([&](const auto& any) { handle(node, any); }, *message);
    }
  } catch (const Error& error) {
    node.connection.close(error.what());
  }
  if (!node.connection.is_open()) drop_node(node, "lost: " + node.connection.problem());
}

void Coordinator::handle(Node& node, const ReadyMessage& ready) {
  if (ready.address.empty() && !node.is_own)
    throw environment_error("ready message without an address");
  node.ready = ready;
}

void Coordinator::handle(Node& node, const StatusMessage& status) {
  if (!node.in_group) return;
  node.ranks = status.ranks;
  node.status_received = Clock::now();
  has_status_ = true;
}

void Coordinator::handle(Node& node, const EndedMessage& message) {
  if (phase_ == Phase::TakingOver && node.in_group) {
    node.join->returning->ended = message;  // handled when it has taken over
    return;
  }
  if (node.is_joining && phase_ == Phase::Running) return end_join(node, message);
  if (node.in_group && phase_ == Phase::Running && !node.has_ended) {
    node.has_ended = true;
    // The workers of a node that leaves do not matter to those that continue.
    if (!message.leaves || !regrouping_ || stopping_ || !regrouping_->has_members())
      add_to(attempt_, message, node.label, node.is_own);
    const auto all_well = [](const auto& worker) { return !worker.failed(); };
    const auto& workers = message.report.workers;
    if (!message.leaves && (!message.report.node_failures.empty() ||
                            !std::all_of(workers.begin(), workers.end(), all_well)))
      stop_group();
  }
  if (!message.leaves) return conclude();
  node.has_ended = false;
  drop_node(node,
            fmt::format("stopped by {}", signal_name(message.report.interrupted_by.value_or(0))));
  node.connection.close("left");
}

void Coordinator::judge_status() {
  if (phase_ != Phase::Running || !std::exchange(has_status_, false) || stopping_) return;
  const auto now = Clock::now();
  std::map<int, NodeStatus> by_node;
  for (const auto& node : nodes_) {
    if (!node.in_group || !node.status_received) continue;
    const auto received = std::max(*node.status_received, node.connection.last_received());
    by_node[node.node_rank] = {node.ranks, std::chrono::duration<double>(now - received).count()};
  }
  const auto request = judge_.judge(by_node);
  if (!request) return;
  for (auto& node : nodes_)
    if (node.in_group) node.connection.send(encode(*request));
}

void Coordinator::drop_silent_nodes() {
  const auto now = Clock::now();
  const auto limit = silence_limit();
  // After this process itself was stopped for a while, all nodes appear silent.
  if (now - std::exchange(last_update_, now) > limit / 2)
    for (auto& node : nodes_) node.connection.reset_silence();
  for (auto& node : nodes_) {
    if (node.is_own || !node.connection.is_open() || now - node.connection.last_received() < limit)
      continue;
    const auto reason = fmt::format("lost: no message for {:g} s", in_seconds(limit));
    node.connection.send(encode(DroppedMessage{}));
    node.connection.close(reason);
    drop_node(node, reason);
  }
}

// Closed connections: received messages are handled before the node is dropped.
void Coordinator::drop_closed_nodes() {
  for (auto& node : nodes_)
    if (!node.connection.is_open() && !node.is_dropped) receive(node);
  nodes_.remove_if([](const Node& node) { return node.is_dropped; });
}

void Coordinator::drop_node(Node& node, const std::string& reason) {
  if (std::exchange(node.is_dropped, true)) return;
  all_nodes_present_ = false;
  if (phase_ == Phase::Gathering && node.join)
    add_note(fmt::format("lost {} while waiting for nodes: {}", node.label, reason));
  if (phase_ != Phase::Running || !node.in_group) return;
  node.in_group = false;
  const bool comes_too_late = node.is_joining && !regrouping_->has_members();
  if (node.has_ended || comes_too_late || continues_without(node, reason)) return conclude();
  if (has_given_way_) return;
  attempt_.node_failures.push_back(
      {.node_rank = node.node_rank, .host = node.label, .reason = reason});
  stop_group();
  conclude();
}

void Coordinator::keep_alive() {
  const auto now = Clock::now();
  if (now - last_alive_ < options_.rendezvous.keep_alive) return;
  last_alive_ = now;
  const auto alive = encode(CoordinatorMessage(HeartbeatMessage{}));
  for (auto& node : nodes_) node.connection.send(alive);
  for (auto& arrival : deferred_) arrival.connection.send(alive);
}

std::vector<Coordinator::Node*> Coordinator::ready_nodes() {
  std::vector<Node*> ready;
  for (auto& node : nodes_)
    if (node.join && node.ready && node.connection.is_open()) ready.push_back(&node);
  return ready;
}

void Coordinator::gather() {
  const auto now = Clock::now();
  if (now < start_after_) return;
  auto ready = ready_nodes();
  const auto num_ready = static_cast<int>(ready.size());
  const auto& limits = options_.rendezvous;
  const bool is_enough = num_ready >= limits.min_nodes;
  if (!is_enough) last_call_.reset();
  if (num_ready >= limits.max_nodes ||
      (is_enough && all_nodes_present_ && ready.size() == nodes_.size()) ||
      (last_call_ && now >= *last_call_))
    return start(std::move(ready));
  if (is_enough && !last_call_) last_call_ = now + limits.last_call;
  if (now >= gather_note_) note_missing_nodes(num_ready);
  if (is_enough || now < gather_deadline_) return;
  fail_to_start(
      environment_error(fmt::format("timed out after {:g} s: {} of {} required nodes joined",
                                    in_seconds(limits.join_timeout), num_ready, limits.min_nodes)));
}

void Coordinator::fail_to_start(const Error& error) {
  LaunchReport report{.restarts = restarts_.count(), .run_id = options_.run_id};
  if (report.restarts > 0) report.notes.push_back("previous attempt: " + attempt_.summary());
  report.node_failures.push_back({.reason = error.what(), .exit_code = error.exit_code()});
  finish(std::move(report));
}

void Coordinator::give_up_restart(const Error& error) {
  if (phase_ == Phase::Gathering) fail_to_start(error);
}

// Nodes are ordered by the number that the user gave them, then the coordinator's node, then by
// arrival. If there are too many, nodes of the last attempt take precedence over new ones.
void Coordinator::start(std::vector<Node*> chosen) {
  const auto order = [](const Node* node) {
    return std::make_tuple(node->join->node_rank.value_or(INT_MAX), !node->is_own, node->arrival);
  };
  const auto by_order = [&](const Node* a, const Node* b) { return order(a) < order(b); };
  std::sort(chosen.begin(), chosen.end(), by_order);
  std::stable_partition(chosen.begin(), chosen.end(), [](auto* node) { return node->in_group; });
  chosen.resize(
      std::min<size_t>(chosen.size(), static_cast<size_t>(options_.rendezvous.max_nodes)));
  std::sort(chosen.begin(), chosen.end(), by_order);
  for (auto& node : nodes_) node.in_group = false;

  NodePlace place{.num_nodes = static_cast<int>(chosen.size()), .world_size = 0};
  for (const auto* node : chosen) place.world_size += node->join->num_workers;
  place.restart_count = restarts_.count();
  place.max_restarts = restarts_.max_restarts();
  place.master_addr = address_of(*chosen.front(), chosen);
  place.master_port = chosen.front()->ready->port;
  place.run_id = options_.run_id;
  attempt_ = {
      .world_size = place.world_size, .restarts = restarts_.count(), .run_id = options_.run_id};
  restarts_.begin_attempt(Clock::now());
  judge_.begin_attempt();
  stopping_ = false;
  phase_ = Phase::Running;
  begin_groups(chosen);
  for (auto* node : chosen) {
    if (chosen.size() > 1) place.address = address_of(*node, chosen);
    node->in_group = true;
    node->is_joining = node->has_ended = false;
    node->ready.reset();
    node->status_received.reset();
    node->node_rank = place.node_rank;
    node->connection.send(encode(place));
    place.first_rank += node->join->num_workers;
    ++place.node_rank;
  }
  announce_job();
}

void Coordinator::conclude() {
  if (phase_ != Phase::Running) return;
  for (const auto& node : nodes_)
    if (node.in_group && !node.has_ended) return;
  std::sort(attempt_.workers.begin(), attempt_.workers.end(),
            [](const auto& a, const auto& b) { return a.rank < b.rank; });
  judge_.explain(attempt_);
  const bool may_help = attempt_.exit_code() != static_cast<int>(ErrorKind::Config);
  if (attempt_.succeeded() || attempt_.preempted_by() || !may_help)
    return finish(std::move(attempt_));
  const auto delay = restarts_.restart(Clock::now(), attempt_.last_step);
  if (!delay) return finish(std::move(attempt_));
  add_note(
      fmt::format("{}: {}{}", restarts_.describe(*delay), attempt_.summary(), reason_of(attempt_)));
  all_nodes_present_ = attempt_.node_failures.empty();
  begin_gathering(*delay);
}

void Coordinator::note_missing_nodes(int num_ready) {
  gather_note_ = Clock::time_point::max();
  const auto& limits = options_.rendezvous;
  const bool is_closed = limits.token.empty() && is_name_for_loopback(limits.host);
  add_note(fmt::format("{} of {} nodes joined; waiting for the others at {}:{}{}", num_ready,
                       limits.max_nodes, limits.host, limits.port,
                       is_closed ? ", which is loopback here (/etc/hosts): without a token only "
                                   "launchers of this machine can join"
                                 : ""));
}

void Coordinator::begin_gathering(std::chrono::milliseconds delay) {
  const auto now = start_after_ = Clock::now() + delay;
  phase_ = Phase::Gathering;
  gather_deadline_ = now + options_.rendezvous.join_timeout;
  gather_note_ = now + kNoteDelay;
  last_call_.reset();
}

void Coordinator::interrupt(int signal) {
  if (phase_ == Phase::TakingOver)
    takeover_->interrupted_by = signal;  // only a node with the claim may end the job
  else if (phase_ != Phase::Finished)
    finish({.interrupted_by = signal, .restarts = restarts_.count(), .run_id = options_.run_id});
}

void Coordinator::finish(LaunchReport report) {
  if (has_taken_over_) options_.moved->remove();
  phase_ = Phase::Finished;
  finish_deadline_ = Clock::now() + kFinishTimeout;
  finish_ = FinishMessage{.report = std::move(report)};
  const auto all = encode(*finish_);
  const auto outline = encode(FinishMessage{.report = outline_of(finish_->report)});
  for (auto& node : nodes_)
    if (node.join) node.connection.send(node.is_own ? all : outline);
}

bool Coordinator::is_done() const {
  if (phase_ != Phase::Finished) return false;
  const auto is_gone = [](const Node& node) { return node.is_own || !node.connection.is_open(); };
  return std::all_of(nodes_.begin(), nodes_.end(), is_gone) || Clock::now() >= finish_deadline_;
}

}  // namespace lockstep::launch
