#include "launch/rendezvous/rendezvous_client.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/printable.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "launch/rendezvous/succession.h"
#include "launch/report/error_file.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::launch {
namespace {

using Clock = PollSet::Clock;

constexpr std::chrono::milliseconds kRetryEvery{250};
constexpr std::chrono::seconds kStageTimeout{10};  // to connect, and for each response
constexpr int kNodeChallengeBytes = 32;
constexpr size_t kMaxStatusBytes = Connection::kMaxMessageBytes / 2;  // with stacks
constexpr int kChecksPerSilenceTimeout = 4;                           // without other events

double seconds_of(std::chrono::milliseconds time) {
  return static_cast<double>(time.count()) / 1000;
}

}  // namespace

RendezvousClient::RendezvousClient(RendezvousClientOptions options)
    : options_(std::move(options)),
      give_up_at_(Clock::now() + options_.rendezvous.join_timeout),
      retry_at_(Clock::now()),
      last_alive_(Clock::now()),
      last_update_(Clock::now()) {}

RendezvousClient::RendezvousClient(RendezvousClientOptions options, Connection coordinator)
    : RendezvousClient(std::move(options)) {
  is_local_ = true;
  connection_ = std::move(coordinator);
  join();
}

void RendezvousClient::watch(PollSet& polls) {
  if (connection_ && stage_ != Stage::Left) {
    auto request = connection_->poll_request();
    if (stage_ == Stage::Connecting) request.events = POLLOUT;
    polls.watch(request, [this](short) { is_ready_for_io_ = true; });
    if (!connection_->is_open()) polls.wake_at(Clock::now());  // sending has failed
  }
  if (stage_ == Stage::Joined && !is_local_) {
    polls.wake_at(last_alive_ + options_.rendezvous.keep_alive);
    polls.wake_at(last_update_ + options_.rendezvous.silence_timeout() / kChecksPerSilenceTimeout);
  }
  if (stage_ == Stage::Disconnected) polls.wake_at(std::min(retry_at_, give_up_at_));
  if (stage_ == Stage::Connecting || stage_ == Stage::Handshake) polls.wake_at(stage_deadline_);
}

void RendezvousClient::update() {
  if (stage_ == Stage::Left) return;
  const bool has_failed = connection_ && !connection_->is_open();
  if (std::exchange(is_ready_for_io_, false) || has_failed) receive();
  const auto now = Clock::now();
  const auto since_last = now - std::exchange(last_update_, now);
  const auto& timing = options_.rendezvous;
  if (stage_ == Stage::Disconnected && now >= give_up_at_)
    return give_up(environment_error(fmt::format(
        "cannot reach the rendezvous at {}:{} within {:g} s: {}{}", timing.host, timing.port,
        seconds_of(has_joined_before_ ? timing.read_timeout : timing.join_timeout), last_problem_,
        options_.endpoint_is_taken && !has_joined_before_
            ? "; another program on this host may use that port"
            : "")));
  if (stage_ == Stage::Disconnected && now >= retry_at_) return connect();
  if ((stage_ == Stage::Connecting || stage_ == Stage::Handshake) && now >= stage_deadline_)
    return fail_attempt("no response");
  if (stage_ != Stage::Joined || is_local_) return;
  const auto limit = timing.silence_timeout();
  // After this process itself was stopped for a while, the coordinator appears silent.
  if (since_last > limit / 2) connection_->reset_silence();
  if (now - last_alive_ >= timing.keep_alive) {
    last_alive_ = now;
    connection_->send(encode(NodeMessage(HeartbeatMessage{})));
  }
  if (now - connection_->last_received() >= limit)
    lose_connection(fmt::format("no message for {:g} s", seconds_of(limit)), true);
}

void RendezvousClient::connect() {
  if (search_) return try_candidate();
  if (addresses_.empty()) {
    try {
      addresses_ = resolve(options_.rendezvous.host, options_.rendezvous.port);
    } catch (const Error& error) {
      return fail_attempt(error.what());  // the name of a node that is still starting
    }
  }
  try_next_address();
}

void RendezvousClient::try_next_address() {
  const auto& address = addresses_[next_address_++ % addresses_.size()];
  FileDescriptor fd(
      ::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.is_open()) return fail_attempt(std::strerror(errno));
  const int result = ::connect(fd.get(), address.get(), address.size);
  if (result != 0 && errno != EINPROGRESS) return fail_attempt(std::strerror(errno));
  connection_.emplace(std::move(fd));
  stage_ = Stage::Connecting;
  const auto now = Clock::now();
  stage_deadline_ = std::min(now + kStageTimeout, std::max(give_up_at_, now + kRetryEvery));
  if (may_be_another()) stage_deadline_ = now + time_to_join(options_.rendezvous);
}

void RendezvousClient::fail_attempt(const std::string& problem) {
  last_problem_ = problem;
  connection_.reset();
  if (!search_ && may_be_another()) {
    stage_ = Stage::Left;
    commands_.push_back(NotServed{});
    return;
  }
  stage_ = Stage::Disconnected;
  retry_at_ = Clock::now() + kRetryEvery;
  if (!search_) return;
  search_->candidates.pop_front();
  retry_at_ = Clock::now();
}

void RendezvousClient::receive() {
  if (stage_ == Stage::Connecting) {
    int reason = 0;
    socklen_t size = sizeof reason;
    ::getsockopt(connection_->fd(), SOL_SOCKET, SO_ERROR, &reason, &size);
    if (reason == EINPROGRESS) return;
    if (reason != 0) return fail_attempt(std::strerror(reason));
    stage_ = Stage::Handshake;
    if (!may_be_another()) stage_deadline_ = Clock::now() + kStageTimeout;
  }
  connection_->transfer();
  bool has_protocol_error = false;
  try {
    while (connection_ && stage_ != Stage::Left)
      if (const auto message = connection_->next())
        handle(*message);
      else
        break;
  } catch (const Error& error) {
    has_protocol_error = true;
    if (connection_) connection_->close(error.what());
  }
  if (!connection_ || connection_->is_open() || stage_ == Stage::Left) return;
  const auto problem = connection_->problem();
  if (stage_ == Stage::Joined && is_welcome_) return lose_connection(problem, false);
  if (may_be_another()) return fail_attempt(problem);
  if (has_protocol_error || connection_->has_protocol_error()) return give_up(not_a_rendezvous());
  fail_attempt(problem);
}

Error RendezvousClient::not_a_rendezvous() const {
  const auto& host = options_.rendezvous.host;
  const int port = options_.rendezvous.port;
  if (options_.endpoint_is_taken)
    return environment_error(
        fmt::format("cannot serve the rendezvous at {}:{}: another program uses port {} of this "
                    "host; choose another port, the same on every node",
                    host, port, port));
  return config_error(fmt::format("the server at {}:{} is not a Lockstep rendezvous", host, port));
}

void RendezvousClient::handle(std::string_view content) {
  const auto message = decode_coordinator_message(content);
  const bool is_handshake = message && (std::holds_alternative<ChallengeMessage>(*message) ||
                                        std::holds_alternative<CoordinatorProofMessage>(*message) ||
                                        std::holds_alternative<RefusedMessage>(*message));
  if (stage_ != Stage::Joined && !is_handshake) throw environment_error("unexpected message");
  if (message) std::visit([this](const auto& any) { handle(any); }, *message);
}

void RendezvousClient::handle(const ChallengeMessage& challenge) {
  if (stage_ != Stage::Handshake) return;
  if (challenge.protocol != kRendezvousProtocol)
    return reject(config_error(fmt::format(
        "the rendezvous at {}:{} runs Lockstep {}, this node {}: install the same version",
        options_.rendezvous.host, options_.rendezvous.port, printable(challenge.version),
        kVersion)));
  challenges_ = {.coordinator = challenge.challenge, .node = random_hex(kNodeChallengeBytes)};
  connection_->send(encode(
      NodeProofMessage{.version = kVersion,
                       .challenge = challenges_.node,
                       .proof = proof_of(Side::Node, options_.rendezvous.token, challenges_)}));
}

void RendezvousClient::handle(const CoordinatorProofMessage& proof) {
  if (stage_ != Stage::Handshake) return;
  const auto expected = proof_of(Side::Coordinator, options_.rendezvous.token, challenges_);
  if (!is_same_proof(expected, proof.proof))
    return reject(config_error(fmt::format("the server at {}:{} does not have the job's token",
                                           options_.rendezvous.host, options_.rendezvous.port)));
  connection_->trust(Side::Node, options_.rendezvous.token, challenges_);
  join();
}

void RendezvousClient::handle(const RefusedMessage& refused) {
  if (search_ && stage_ == Stage::Joined) return decline(refused.message);
  reject(Error(refused.kind, refused.message));
}

// What listens at an address is not the coordinator of this job.
void RendezvousClient::reject(const Error& error) {
  if (may_be_another()) return fail_attempt(error.what());
  give_up(error);
}

// Whether another program may use the port: in a search, that of a node that is lost; otherwise, the file that
// says where the rendezvous has moved may be of an earlier job.
bool RendezvousClient::may_be_another() const {
  return search_ || (options_.has_moved && !has_joined_before_);
}

void RendezvousClient::handle(const WelcomeMessage& welcome) {
  is_welcome_ = true;
  coordinator_host_ = welcome.host;
  if (!search_) return;
  serving_node_ = search_->candidates.front();
  if (!is_local_)
    notes_.push_back(fmt::format("{} was lost, which served the rendezvous: {}; {} serves it now",
                                 search_->lost, search_->problem, coordinator_host_));
  search_.reset();
}

void RendezvousClient::handle(const NodePlace& place) {
  is_ready_ = false;
  is_in_group_ = true;
  last_status_.clear();
  node_ = place.node_rank;
  job_.reset();
  ended_.reset();
  is_stopping_ = false;
  commands_.push_back(place);
}

void RendezvousClient::handle(const StopOrder& order) {
  is_stopping_ = true;
  successor_.close();  // until the next attempt
  commands_.push_back(order);
}

void RendezvousClient::handle(const GroupState& state) {
  commands_.push_back(state);
  if (!state.job || !options_.can_lose_coordinator) return;
  job_ = state.job;
  serving_node_ = job_->coordinator;
  lost_nodes_.clear();
}

void RendezvousClient::handle(const FinishMessage& finish) {
  commands_.push_back(finish);
  // Workers that leave, or lose others, while all stop need answers to save a checkpoint.
  has_finished_ = options_.continues_on_loss && is_in_group_;
  successor_.close();
  if (has_finished_) return;
  stage_ = Stage::Left;
  leave();
}

void RendezvousClient::join() {
  stage_ = Stage::Joined;
  has_joined_before_ = true;
  is_welcome_ = false;
  is_in_group_ = search_ && !ended_;
  last_status_.clear();
  const auto& rendezvous = options_.rendezvous;
  JoinMessage message{.host = options_.host,
                      .num_workers = options_.num_workers,
                      .num_spares = options_.num_spares,
                      .node_rank = rendezvous.node_rank,
                      .serves = is_local_,
                      .agreements = rendezvous.agreements};
  if (ended_) ended_->time_us = unix_time_us();
  if (search_)
    message.returning =
        ReturningNode{node_, *job_, events_.value_or(std::vector<GroupEvent>()), ended_};
  connection_->send(encode(std::move(message)));
  if (is_ready_) send_ready();
}

void RendezvousClient::set_ready() {
  is_ready_ = true;
  if (stage_ == Stage::Joined) send_ready();
}

void RendezvousClient::send_ready() {
  if (!connection_->is_open()) return;  // sent when it has joined again
  ReadyMessage ready{.address = options_.master_addr};
  if (options_.rendezvous.max_nodes == 1) {
    const bool here = ready.address == "127.0.0.1" || ready.address == "localhost";
    master_ = listen_as_master(options_.master_port, here);
  } else {
    ready.address = options_.rendezvous.local_addr;
    if (ready.address.empty() && !is_local_)
      ready.address = local_address(connection_->fd()).host();
    master_ =
        ready.address.empty() ? listen_as_master(0, false) : listen_as_master_at(ready.address);
  }
  ready.port = master_.port;
  if (options_.can_lose_coordinator && !is_local_) {
    listen_as_successor(ready.address);
    if (successor_.is_open()) ready.successor_port = local_address(successor_.get()).port();
  }
  connection_->send(encode(ready));
}

void RendezvousClient::report_attempt(const LaunchReport& report, bool leaves) {
  EndedMessage message{.report = report, .time_us = unix_time_us(), .leaves = leaves};
  if (!leaves) ended_ = message;
  if (stage_ != Stage::Joined || (!is_in_group_ && !leaves)) return;
  is_in_group_ = false;
  connection_->send(encode(std::move(message)));
  if (!has_finished_) return;
  stage_ = Stage::Left;
  leave();
}

void RendezvousClient::report_groups(std::vector<GroupEvent> events) {
  if (events.empty() || stage_ != Stage::Joined || !is_in_group_) return;
  connection_->send(encode(GroupEventsMessage{.events = std::move(events)}));
}

void RendezvousClient::report_status(StatusMessage status) {
  if (stage_ != Stage::Joined || !is_in_group_) return;
  auto content = encode(status);
  if (content.size() > kMaxStatusBytes) {
    for (auto& rank : status.ranks) rank.stacks.clear();
    content = encode(status);
  }
  if (content == last_status_) return;
  connection_->send(content);
  last_status_ = std::move(content);
}

void RendezvousClient::lose_coordinator(const std::string& problem, bool may_return) {
  if (has_finished_) {  // it does not wait for slow nodes
    stage_ = Stage::Left;
    leave();
    commands_.push_back(StopOrder{});
    return;
  }
  const auto lost =
      fmt::format("lost {}, which serves the rendezvous: {}", coordinator_name(), problem);
  const bool waits = options_.can_lose_coordinator && !is_in_group_ && !ended_;  // for a place
  if (!may_return && !waits) return give_up(environment_error(lost));
  notes_.push_back(fmt::format("{}; this node {}tries to reconnect for {:g} s", lost,
                               waits ? "" : "stops its workers and ",
                               seconds_of(options_.rendezvous.read_timeout)));
  successor_.close();
  commands_.push_back(StopOrder{});
  give_up_at_ = Clock::now() + options_.rendezvous.read_timeout;
  fail_attempt(problem);
}

void RendezvousClient::leave() {
  connection_.reset();
  successor_.close();
}

void RendezvousClient::give_up(const Error& error) {
  stage_ = Stage::Left;
  leave();
  commands_.push_back(FinishMessage{.error = describe_error(error)});
}

std::string RendezvousClient::coordinator_name() const {
  const auto& rendezvous = options_.rendezvous;
  return fmt::format("{} ({}:{})", coordinator_host_.empty() ? "the node" : coordinator_host_,
                     rendezvous.host, rendezvous.port);
}

std::optional<Command> RendezvousClient::next() {
  if (commands_.empty()) return std::nullopt;
  auto command = std::move(commands_.front());
  commands_.pop_front();
  return command;
}

}  // namespace lockstep::launch
