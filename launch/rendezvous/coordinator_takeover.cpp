// The loss of the coordinator's node, with --on-rank-loss continue: what the other nodes need to know for
// it, how one of them becomes the coordinator, and which side continues if the network is cut.
#include <fmt/format.h>

#include <algorithm>

#include "launch/protocol/token.h"
#include "launch/rendezvous/coordinator.h"
#include "launch/rendezvous/succession.h"

namespace lockstep::launch {
namespace {

using Clock = PollSet::Clock;

constexpr int kKeyBytes = 8;

// Whether the node has not been lost; another one may have its place since then.
bool is_in(const JobState& job, const ReturningNode& node) {
  const auto& place = job.nodes[static_cast<size_t>(node.node)];
  return place.is_present && place.since <= node.job.version;
}

}  // namespace

// Of an attempt on several nodes, which are in the order of their numbers.
void Coordinator::begin_job(const std::vector<Node*>& chosen) {
  if (options_.moved && !has_taken_over_) options_.moved->remove();  // of an earlier job
  job_.reset();
  claims_.reset();
  const auto own = std::ranges::find_if(chosen, &Node::is_own);
  if (chosen.size() == 1 || options_.runs_dir.empty() || own == chosen.end()) return;
  job_ = JobState{.key = random_hex(kKeyBytes),
                  .coordinator = static_cast<int>(own - chosen.begin()),
                  .num_restarts = restarts_.count(),
                  .run_id = options_.run_id};
  for (const auto* node : chosen)
    job_->nodes.push_back({.num_ranks = node->join->num_workers,
                           .num_spares = node->join->num_spares,
                           .address = address_of(*node, chosen),
                           .port = node->ready->successor_port,
                           .label = node->label,
                           .given_rank = node->join->node_rank});
  claims_.emplace(claims_directory(options_.runs_dir, options_.run_id), job_->key,
                  job_->coordinator);
}

// Before it is sent to the other nodes.
void Coordinator::update_job() {
  if (!job_) return;
  ++job_->version;
  job_->num_claims = claims_->count();
  for (auto& node : job_->nodes) node.is_present = false;
  for (const auto& node : nodes_)
    if (node.in_group) job_->nodes[static_cast<size_t>(node.node_rank)].is_present = true;
  regrouping_->save(*job_);
}

void Coordinator::announce_job() {
  if (!job_) return;
  update_job();
  for (auto& node : nodes_)
    if (node.in_group) send_groups(node, {});
}

// So that the side with more nodes continues when the network is cut, the other one waits a little
// longer. Nodes that were cut off together may be silent since different heartbeats.
std::chrono::milliseconds Coordinator::silence_limit() const {
  const auto& timing = options_.rendezvous;
  const auto limit = timing.silence_timeout();
  if (!claims_) return limit;
  int num_nodes = 0, num_silent = 0;
  for (const auto& node : nodes_) {
    if (!node.in_group) continue;
    ++num_nodes;
    if (!node.is_own && Clock::now() - node.connection.last_received() >= limit - timing.keep_alive)
      ++num_silent;
  }
  return 2 * num_silent > num_nodes ? limit + time_for_majority(timing) : limit;
}

// Whether the job may continue without nodes that are lost. If not, this node stops.
bool Coordinator::claim(const std::string& lost) {
  if (!claims_) return true;
  std::string problem = kContinuedByOther;
  try {
    if (claims_->claim(group_numbers())) return true;
  } catch (const Error& error) {
    problem = error.what();
  }
  give_way(fmt::format("lost {}; {}", lost, problem));
  return false;
}

std::vector<int> Coordinator::group_numbers() const {
  std::vector<int> numbers;
  for (const auto& node : nodes_)
    if (node.in_group) numbers.push_back(node.node_rank);
  return numbers;
}

// Others continue the job.
void Coordinator::give_way(const std::string& reason) {
  has_given_way_ = true;
  phase_ = Phase::Finished;
  finish_deadline_ = Clock::now();
  finish_ = FinishMessage{.error = describe_error(environment_error(reason))};
  for (auto& node : nodes_)
    if (node.is_own)
      node.connection.send(encode(*finish_));
    else
      node.connection.close("it cannot continue the job");  // the other one may
}

Coordinator::Coordinator(CoordinatorOptions options, FileDescriptor listener, Connection own,
                         StatusJudge& judge, Takeover takeover)
    : Coordinator(std::move(options), std::move(listener), std::move(own), judge) {
  phase_ = Phase::TakingOver;
  takeover_deadline_ = Clock::now() + time_to_join(options_.rendezvous);
  takeover_ = std::move(takeover);
  claims_.emplace(claims_directory(options_.runs_dir, options_.run_id), takeover_->job.key,
                  takeover_->node, takeover_->job.num_claims);
  restarts_.resume(takeover_->job.num_restarts);
}

void Coordinator::admit_returning(Node& node) {
  const auto& returning = *node.join->returning;
  const auto number = static_cast<size_t>(returning.node);
  const bool is_known = takeover_ && returning.job.key == takeover_->job.key &&
                        number < takeover_->job.nodes.size() &&
                        returning.job.nodes.size() == takeover_->job.nodes.size() &&
                        returning.node != takeover_->job.coordinator;
  const bool is_taken = std::ranges::any_of(nodes_, [&](const Node& other) {
    return other.in_group && other.node_rank == returning.node;
  });
  if (!is_known || is_taken) throw environment_error(kContinued);
  adopt_newer(returning.job);
  // The last coordinator may have lost it before. If that is this node, it cannot claim the job.
  if (!node.is_own && !is_in(takeover_->job, returning)) throw environment_error(kContinued);
  node.in_group = true;
  const auto& place = takeover_->job.nodes[number];
  node.is_joining = place.since > 0 && takeover_->job.num_ranks_on(returning.node) == 0;
  node.node_rank = returning.node;
}

// The nodes that are not part of it do not return.
void Coordinator::adopt_newer(const JobState& job) {
  if (job.version <= takeover_->job.version) return;
  const int lost = takeover_->job.coordinator;
  takeover_->job = job;
  takeover_->job.coordinator = lost;
  for (auto& node : nodes_) {
    if (!node.in_group || node.is_own || is_in(job, *node.join->returning)) continue;
    node.in_group = false;
    node.connection.send(encode(RefusedMessage{.message = kContinued}));
    node.connection.close("refused");
  }
}

// Whether all nodes that are left have joined, or the time for it is over. If the last coordinator may
// still run, a side with only half of the nodes gives the other one time to claim the job.
bool Coordinator::is_complete() const {
  const auto now = Clock::now();
  if (now >= takeover_deadline_) return true;
  const auto& timing = options_.rendezvous;
  const auto num_joined = std::ranges::count_if(nodes_, &Node::in_group);
  const auto num_present = std::ranges::count_if(takeover_->job.nodes, &JobNode::is_present);
  if (num_joined < num_present - 1) return false;
  return !takeover_->is_silent || 2 * num_joined > num_present ||
         now >= takeover_deadline_ - time_to_join(timing) + time_for_majority(timing);
}

void Coordinator::take_over() {
  const auto takeover = *std::exchange(takeover_, std::nullopt);
  job_ = takeover.job;
  const auto& lost = job_->nodes[static_cast<size_t>(takeover.job.coordinator)].label;
  if (!claim(fmt::format("{}, which served the rendezvous: {}", lost, takeover.reason))) return;
  phase_ = Phase::Running;
  std::vector<Regrouping::Node> members;
  for (const auto& node : job_->nodes)
    members.push_back({node.num_ranks, node.num_spares, node.address});
  regrouping_.emplace(std::move(members), options_.rendezvous.silence_timeout());
  regrouping_->restore(*job_);
  job_->coordinator = takeover.node;
  attempt_ = {
      .world_size = job_->world_size, .restarts = job_->num_restarts, .run_id = options_.run_id};
  restarts_.begin_attempt(Clock::now());
  judge_.begin_attempt();
  add_note(fmt::format("{} was lost, which served the rendezvous: {}; this node serves it now",
                       lost, takeover.reason));
  lose_missing(takeover);
  for (auto& node : nodes_)
    if (node.in_group) repeat_events(node);
  announce_job();
  move_rendezvous();
  if (takeover.interrupted_by) interrupt(*takeover.interrupted_by);
}

// For launchers that start from now on.
void Coordinator::move_rendezvous() {
  has_taken_over_ = true;
  try {
    options_.moved->write({options_.rendezvous.host, options_.rendezvous.port});
  } catch (const Error& error) {
    add_note(fmt::format("nodes that were lost cannot come back: {}", error.what()));
  }
}

// The node of the last coordinator, and those that have not joined.
void Coordinator::lose_missing(const Takeover& takeover) {
  for (size_t i = 0; i < job_->nodes.size(); ++i) {
    const auto number = static_cast<int>(i);
    const bool has_joined = std::ranges::any_of(
        nodes_, [&](const Node& node) { return node.in_group && node.node_rank == number; });
    if (has_joined || !job_->nodes[i].is_present) continue;
    const auto reason = number == takeover.job.coordinator
                            ? takeover.reason
                            : std::string("it did not connect to the new coordinator");
    const auto& label = job_->nodes[i].label;
    if (regrouping_->lose_node(number, fmt::format("with {}: {}", label, reason))) continue;
    attempt_.node_failures.push_back(
        {.node_rank = number, .host = label, .reason = "lost: " + reason});
    stop_group();
  }
}

void Coordinator::repeat_events(Node& node) {
  auto returning = std::exchange(node.join->returning, std::nullopt);
  try {
    for (const auto& event : returning->events) handle(node, event);
    if (returning->ended) handle(node, *returning->ended);
  } catch (const Error& error) {
    node.connection.close(error.what());  // dropped next
  }
}

}  // namespace lockstep::launch
