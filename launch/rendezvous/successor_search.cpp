// How a node continues when the coordinator's node is lost: it joins the first node that is left, or becomes
// the coordinator if it is that one.
#include <fmt/format.h>

#include <algorithm>

#include "launch/protocol/address.h"
#include "launch/rendezvous/rendezvous_client.h"
#include "launch/rendezvous/succession.h"
#include "lockstep/error.h"

namespace lockstep::launch {

using Clock = PollSet::Clock;

// Without one, the others do not try this node.
void RendezvousClient::listen_as_successor(const std::string& address) {
  if (successor_.is_open()) return;
  const auto own = resolve(address, 0).front();
  const bool is_secret = !options_.rendezvous.token.empty();
  if (!is_secret && !own.is_loopback()) return;  // anyone could join
  auto listener = try_listen(own);
  if (!listener.fd && is_secret)
    listener = try_listen_everywhere(0);  // the address is forwarded to this machine
  if (listener.fd) successor_ = std::move(*listener.fd);
}

void RendezvousClient::lose_connection(const std::string& problem, bool is_silent) {
  if (can_follow()) return begin_search(problem, is_silent);
  lose_coordinator(problem, /*may_return=*/is_silent);
}

// The coordinator has missed the heartbeats of this node: the others continue without its ranks.
void RendezvousClient::handle(const DroppedMessage&) {
  const std::string problem = "it dropped this node";
  if (!events_ || !can_follow() || !job_->has_ranks_without(node_))
    return lose_coordinator(problem, /*may_return=*/true);
  commands_.push_back(CoordinatorLoss{});  // the workers are killed
  give_up(environment_error(fmt::format("lost {}, which serves the rendezvous: {}; {}",
                                        coordinator_name(), problem, kContinued)));
}

bool RendezvousClient::can_follow() const {
  if (is_local_ || !job_ || has_finished_ || is_stopping_) return false;
  if (!events_) return ended_.has_value();
  return std::ranges::none_of(
      *events_, [](const auto& event) { return event.kind == GroupEvent::Kind::Stopping; });
}

void RendezvousClient::begin_search(const std::string& problem, bool is_silent) {
  search_ = Search{
      .lost = coordinator_name(), .problem = problem, .is_silent = is_silent, .candidates = {}};
  lost_nodes_.push_back(serving_node_);
  for (int node = 0; node < static_cast<int>(job_->nodes.size()); ++node) {
    const auto& known = job_->nodes[static_cast<size_t>(node)];
    if (known.is_present && (known.port > 0 || node == node_) && job_->num_ranks_on(node) > 0 &&
        std::ranges::find(lost_nodes_, node) == lost_nodes_.end())
      search_->candidates.push_back(node);
  }
  commands_.push_back(CoordinatorLoss{.had_ranks = job_->num_ranks_on(serving_node_) > 0});
  connection_.reset();
  give_up_at_ = Clock::time_point::max();
  if (search_->candidates.empty())
    return decline("all ranks of the current group were on its node");
  try_candidate();
}

void RendezvousClient::try_candidate() {
  stage_ = Stage::Disconnected;
  if (search_->candidates.empty())
    return decline("no other node with ranks of the group can be reached");
  const int candidate = search_->candidates.front();
  if (candidate == node_) {
    retry_at_ = Clock::time_point::max();  // serve() or decline() follows
    auto job = *job_;
    job.coordinator = serving_node_;
    commands_.push_back(Takeover{.job = std::move(job),
                                 .node = node_,
                                 .reason = search_->problem,
                                 .is_silent = search_->is_silent});
    return;
  }
  const auto& node = job_->nodes[static_cast<size_t>(candidate)];
  options_.rendezvous.host = node.address;
  options_.rendezvous.port = node.port;
  coordinator_host_ = node.label;
  try {
    addresses_ = resolve(node.address, node.port);
  } catch (const Error& error) {  // it has a scope (IPv6) that this host has not
    return fail_attempt(error.what());
  }
  try_next_address();
}

void RendezvousClient::serve(Connection coordinator) {
  is_local_ = true;
  connection_ = std::move(coordinator);
  join();
}

void RendezvousClient::decline(const std::string& reason) {
  give_up(environment_error(fmt::format("lost {}, which served the rendezvous: {}; {}",
                                        search_->lost, search_->problem, reason)));
}

}  // namespace lockstep::launch
