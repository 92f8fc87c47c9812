// How nodes join: for the next attempt or, with --on-rank-loss continue, the running one, in place of a
// node that was lost.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/system/local_address.h"
#include "launch/protocol/address.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/succession.h"
#include "launch/report/error_file.h"

namespace lockstep::launch {
namespace {

bool is_as_large(const JobNode& place, const JoinMessage& join) {
  return place.num_ranks == join.num_workers && place.num_spares == join.num_spares;
}

// A number that the user gave to one of them only does not matter.
bool has_number_of(const JobNode& place, const JoinMessage& join) {
  return !place.given_rank || !join.node_rank || place.given_rank == join.node_rank;
}

}  // namespace

// A node with the number of a connected one may be its replacement, if the loss of that one has not
// been detected yet: probes it, and decides once it has responded or was dropped.
void Coordinator::defer_duplicate(ConnectionAcceptor::Arrival arrival, Node& other) {
  other.connection.send(encode(ProbeMessage{}));
  other.has_responded = false;
  deferred_.push_back(std::move(arrival));
}

void Coordinator::resolve_deferred() {
  for (auto& arrival : std::exchange(deferred_, {})) {
    const auto* other = node_with_rank_of(arrival.join);
    if (other && !other->has_responded)
      deferred_.push_back(std::move(arrival));
    else
      admit(std::move(arrival));
  }
}

Coordinator::Node* Coordinator::node_with_rank_of(const JoinMessage& join) {
  for (auto& node : nodes_)
    if (join.node_rank && node.connection.is_open() && node.join &&
        node.join->node_rank == join.node_rank)
      return &node;
  return nullptr;
}

void Coordinator::admit(ConnectionAcceptor::Arrival arrival) {
  auto& node = nodes_.emplace_back(Node{.connection = std::move(arrival.connection)});
  node.is_ready_for_io = true;  // more messages may have been received already
  try {
    handle(node, arrival.join);
  } catch (const Error& error) {
    refuse(node, error);
  }
}

void Coordinator::refuse(Node& node, const Error& error) {
  node.connection.send(encode(RefusedMessage{.kind = error.kind(), .message = error.what()}));
  add_note(fmt::format("rejected {}: {}", node.label, error.what()));
  node.connection.close("refused");
  node.is_dropped = true;
}

void Coordinator::handle(Node& node, const JoinMessage& join) {
  if (node.join) return;
  const auto address =
      node.is_own ? options_.rendezvous.local_addr : remote_address(node.connection.fd()).host();
  node.label = address.empty() ? join.host : fmt::format("{} ({})", join.host, address);
  require_same(options_.rendezvous.agreements, join.agreements, {node.label, options_.host});
  verify_node_rank(join);
  node.arrival = num_arrivals_++;
  node.join = join;
  if (join.returning) admit_returning(node);
  node.connection.send(encode(WelcomeMessage{.host = options_.host}));
  if (phase_ == Phase::Finished)
    node.connection.send(encode(FinishMessage{.report = outline_of(finish_->report)}));
  if (phase_ == Phase::Running) expect(node);
}

void Coordinator::verify_node_rank(const JoinMessage& join) const {
  if (!join.node_rank) return;
  if (*join.node_rank >= options_.rendezvous.max_nodes)
    throw config_error(fmt::format("--node-rank {}: expected 0 to {}", *join.node_rank,
                                   options_.rendezvous.max_nodes - 1));
  for (const auto& other : nodes_)
    if (other.connection.is_open() && other.join && other.join->node_rank == join.node_rank)
      throw config_error(
          fmt::format("--node-rank {} is already used by {}: each node needs its own",
                      *join.node_rank, other.label));
}

// The numbers of the nodes that were lost, in whose place this one can be.
std::vector<int> Coordinator::places_for(const JoinMessage& join) const {
  std::vector<int> places;
  if (!job_ || stopping_) return places;
  for (int number = 0; const auto& place : job_->nodes) {
    const bool is_taken = std::ranges::any_of(nodes_, [number](const Node& other) {
      return other.in_group && other.node_rank == number;
    });
    if (!is_taken && has_number_of(place, join)) places.push_back(number);
    ++number;
  }
  return places;
}

// It has joined while an attempt runs.
void Coordinator::expect(const Node& node) {
  const auto& join = *node.join;
  const auto places = places_for(join);
  const auto is_fitting = [&](int number) {
    return is_as_large(job_->nodes[static_cast<size_t>(number)], join);
  };
  if (places.empty())
    return add_note(fmt::format("{} joined: it will take part after the next restart{}", node.label,
                                job_ ? ", or in place of a node that is lost" : ""));
  if (std::ranges::any_of(places, is_fitting)) return;  // take_in_nodes() follows
  const auto& lost = job_->nodes[static_cast<size_t>(places.front())];
  throw config_error(fmt::format(
      "{} has {} ranks and {} spares, but {}, in whose place it would join the running job, had {} "
      "and {}: start it with the same -n and --spares",
      node.label, join.num_workers, join.num_spares, lost.label, lost.num_ranks, lost.num_spares));
}

// Nodes that are ready take the places of lost ones.
void Coordinator::take_in_nodes() {
  if (phase_ != Phase::Running || !regrouping_) return;
  for (auto* node : ready_nodes()) {
    if (node->in_group || node->is_dropped) continue;
    for (const int number : places_for(*node->join))
      if (is_as_large(job_->nodes[static_cast<size_t>(number)], *node->join) &&
          regrouping_->can_add_node(number)) {
        take_in(*node, number);
        break;
      }
    if (phase_ != Phase::Running) return;
  }
}

// The next claim contains the node: it may continue the job without the others.
void Coordinator::take_in(Node& node, int number) {
  node.in_group = node.is_joining = true;
  node.has_ended = node.is_stopping = false;
  node.problem.clear();
  node.node_rank = number;
  try {
    if (!claims_->claim(group_numbers()))
      return give_way(fmt::format("{} joined; {}", node.label, kContinuedByOther));
  } catch (const Error& error) {  // the others train all the same
    node.in_group = false;
    return refuse(node, error);
  }
  auto& place = job_->nodes[static_cast<size_t>(number)];
  place.address = node.ready->address;
  place.port = node.ready->successor_port;
  place.label = node.label;
  place.since = job_->version + 1;
  regrouping_->add_node(number, place.address);
  const auto ranks_before = [this](int end) {
    return std::accumulate(job_->nodes.begin(), job_->nodes.begin() + end, 0,
                           [](int sum, const JobNode& any) { return sum + any.num_ranks; });
  };
  const auto num_nodes = static_cast<int>(job_->nodes.size());
  node.connection.send(encode(NodePlace{.node_rank = number,
                                        .num_nodes = num_nodes,
                                        .first_rank = ranks_before(number),
                                        .world_size = ranks_before(num_nodes),
                                        .restart_count = restarts_.count(),
                                        .max_restarts = restarts_.max_restarts(),
                                        .master_addr = place.address,
                                        .master_port = node.ready->port,
                                        .address = place.address,
                                        .run_id = options_.run_id,
                                        .joins = true,
                                        .claim = claims_->newest()}));
  node.ready.reset();
  node.status_received.reset();
  add_note(
      fmt::format("{} joins as node {}: its ranks take part after a step, when they have "
                  "started",
                  node.label, number));
  announce_job();
}

// Its workers do not become ranks.
void Coordinator::stop_joining(Node& node) {
  if (!std::exchange(node.is_stopping, true)) node.connection.send(encode(StopOrder{}));
}

// The workers of a node have exited before one of them was a rank: the others train all the same.
void Coordinator::end_join(Node& node, const EndedMessage& message) {
  if (stopping_ || !regrouping_->has_members()) {
    node.has_ended = true;
    return conclude();
  }
  const auto& report = message.report;
  if (message.leaves) {
    drop_node(node, fmt::format("stopped by {}", signal_name(report.interrupted_by.value_or(0))));
    return node.connection.close("left");
  }
  auto reason = report.succeeded() ? "its ranks have ended" : report.summary();
  if (const auto* cause = report.cause())
    if (const auto detail = cause->detail(); !detail.empty()) reason += ": " + detail.front();
  if (!node.problem.empty()) reason = node.problem;
  const auto text = fmt::format("{} could not join the running job: {}", node.label, reason);
  const bool is_wrong =
      node.problem.empty() && report.exit_code() == static_cast<int>(ErrorKind::Config);
  node.connection.send(encode(FinishMessage{
      .error = describe_error(is_wrong ? config_error(text) : environment_error(text))}));
  add_note(text);
  drop_node(node, "it could not join");
  node.connection.close("it could not join");
}

}  // namespace lockstep::launch
