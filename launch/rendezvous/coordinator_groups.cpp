// The groups of ranks of a job, with --on-rank-loss continue, and where nodes are reached.
#include <fmt/format.h>

#include <utility>

#include "launch/protocol/address.h"
#include "launch/rendezvous/coordinator.h"

namespace lockstep::launch {

// If the node is this one and its address is not known, it is the one at which others reach it.
std::string Coordinator::address_of(const Node& node, const std::vector<Node*>& chosen) {
  if (!node.ready->address.empty()) return node.ready->address;
  std::string address = "127.0.0.1";
  for (const auto* other : chosen) {
    if (other->is_own) continue;
    const auto reached = local_address(other->connection.fd());
    address = reached.host();
    if (!reached.is_loopback()) break;
  }
  return address;
}

// Before the nodes are started, which are in the order of their numbers.
void Coordinator::begin_groups(const std::vector<Node*>& chosen) {
  regrouping_.reset();
  if (!options_.continues_on_loss) return;
  std::vector<Regrouping::Node> nodes;
  for (const auto* node : chosen) {
    auto& added = nodes.emplace_back();
    added.num_ranks = node->join->num_workers;
    added.num_spares = node->join->num_spares;
    if (chosen.size() > 1) added.address = address_of(*node, chosen);
  }
  const auto patience =
      chosen.size() > 1 ? options_.rendezvous.silence_timeout() : std::chrono::milliseconds(0);
  regrouping_.emplace(std::move(nodes), patience);
  begin_job(chosen);
}

void Coordinator::handle(Node& node, const GroupEventsMessage& message) {
  if (!node.in_group || phase_ == Phase::Gathering) return;
  if (phase_ == Phase::TakingOver) {
    auto& held = node.join->returning->events;
    held.insert(held.end(), message.events.begin(), message.events.end());
    return;
  }
  if (!regrouping_) return;
  for (const auto& event : message.events) handle(node, event);
}

void Coordinator::handle(Node& node, const GroupEvent& event) {
  using enum GroupEvent::Kind;
  if (event.kind == Stopping && node.is_joining) return;
  if (event.kind == Stopping) return regrouping_->stop();
  if (event.worker < 0 || event.worker >= regrouping_->num_members(node.node_rank))
    throw environment_error("group message about a worker that does not exist");
  const int member = regrouping_->first_member(node.node_rank) + event.worker;
  if (event.kind == Started) regrouping_->start_again(member, event.num_starts);
  if (event.kind == Requested) regrouping_->ask(member, event.request);
  if (event.kind == Disconnected) regrouping_->disconnect(member);
  if (event.kind == Exited && !regrouping_->leave(member)) stop_group();
  if (event.kind == Killed && !regrouping_->lose(member, event.how)) stop_group();
  if (!node.is_joining || (event.kind != Exited && event.kind != Killed)) return;
  regrouping_->dismiss_node(node.node_rank);  // its launcher waits until all workers have ended
  if (event.kind == Exited) return;
  if (node.problem.empty()) node.problem = "a rank was " + event.how;
  stop_joining(node);
}

void Coordinator::stop_group() {
  if (std::exchange(stopping_, true)) return;
  if (regrouping_) regrouping_->stop();
  for (auto& node : nodes_)
    if (node.in_group && !node.has_ended) node.connection.send(encode(StopOrder{}));
}

// Whether the others continue without a lost node. It may not know that the workers are being stopped, and
// continue without this one: therefore this one claims the job then, too.
bool Coordinator::continues_without(const Node& node, const std::string& reason) {
  if (!regrouping_) return false;
  const std::string lost = "lost: ";
  const auto detail = reason.starts_with(lost) ? reason.substr(lost.size()) : reason;
  if (!claim(fmt::format("{}: {}", node.label, detail))) return false;
  return !stopping_ &&
         regrouping_->lose_node(node.node_rank, fmt::format("with {}: {}", node.label, detail));
}

void Coordinator::update_groups() {
  if (!regrouping_ || phase_ == Phase::Gathering || phase_ == Phase::TakingOver) return;
  regrouping_->update();
  for (auto& note : regrouping_->take_notes()) add_note(std::move(note));
  if (!regrouping_->has_members())
    for (auto& node : nodes_)
      if (node.in_group && node.is_joining) stop_joining(node);
  const auto answers = regrouping_->take_answers();
  if (!regrouping_->take_changed() && answers.empty()) return;
  update_job();
  for (auto& node : nodes_) {
    if (!node.in_group) continue;
    node.is_joining = node.is_joining && job_->num_ranks_on(node.node_rank) == 0;
    send_groups(node, answers);
  }
}

void Coordinator::send_groups(Node& node, const std::vector<Regrouping::Answer>& answers) {
  GroupState state{
      .answers = {}, .world_size = regrouping_->world_size(), .ranks = {}, .replaced = {}};
  const int first = regrouping_->first_member(node.node_rank);
  const int count = regrouping_->num_members(node.node_rank);
  for (const auto& [member, answer] : answers)
    if (member >= first && member < first + count)
      state.answers.push_back({member - first, answer});
  for (int worker = 0; worker < count; ++worker) {
    state.ranks.push_back(regrouping_->rank_of(first + worker).value_or(-1));
    if (regrouping_->is_replaced(first + worker)) state.replaced.push_back(worker);
    state.starts.push_back(regrouping_->num_starts(first + worker));
  }
  state.job = job_;
  node.connection.send(encode(CoordinatorMessage(std::move(state))));
}

}  // namespace lockstep::launch
