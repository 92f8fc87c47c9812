#include "launch/rendezvous/door.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/printable.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "lockstep/error.h"
#include "lockstep/version.h"

namespace lockstep::launch {
namespace {

constexpr size_t kMostStrangers = 256;
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kPatienceInACrowd{500};
constexpr std::chrono::milliseconds kPauseWithoutRoom{500};
constexpr size_t kMostNotes = 20;
constexpr int kChallengeBytes = 32;
constexpr size_t kLongestVersion = 40;

Error other_version(const std::string& version) {
  return config_error(
      fmt::format("this is Lockstep {}, whose rendezvous speaks protocol {}; the node has Lockstep "
                  "{}: install the same version",
                  kVersion, kRendezvousProtocol, printable(version.substr(0, kLongestVersion))));
}

}  // namespace

Door::Door(FileDescriptor listener, std::string token)
    : listener_(std::move(listener)), token_(std::move(token)) {}

void Door::watch(PollSet& polls) {
  make_room();
  if (listener_.is_open() && PollSet::Clock::now() >= closed_until_)
    polls.watch({.fd = listener_.get(), .events = POLLIN, .revents = 0},
                [this](short) { someone_knocks_ = true; });
  for (auto& stranger : strangers_) {
    polls.watch(stranger.connection.poll_request(), [&](short) { stranger.has_news = true; });
    polls.wake_at(stranger.deadline);
  }
  if (strangers_.size() >= kMostStrangers) polls.wake_at(closed_until_);
}

void Door::update() {
  const bool was_full = strangers_.size() >= kMostStrangers;
  for (auto it = strangers_.begin(); it != strangers_.end();)
    it = hear(*it) ? std::next(it) : strangers_.erase(it);
  if (was_full && strangers_.size() < kMostStrangers) closed_until_ = {};
  if (std::exchange(someone_knocks_, false)) accept_some();
}

// A crowd of nodes that come at once waits in the socket's queue, each until it is heard; only one
// that says nothing has to go before its time.
void Door::make_room() {
  if (strangers_.size() < kMostStrangers) return;
  const auto now = PollSet::Clock::now();
  const auto oldest = std::find_if(strangers_.begin(), strangers_.end(),
                                   [](const auto& stranger) { return !stranger.proved; });
  const auto may_stay_until = oldest == strangers_.end()
                                  ? now + kPatienceInACrowd
                                  : oldest->deadline - kPatience + kPatienceInACrowd;
  if (now >= may_stay_until)
    strangers_.erase(oldest);
  else
    closed_until_ = std::max(closed_until_, may_stay_until);
}

void Door::accept_some() {
  while (strangers_.size() < kMostStrangers) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open() && (errno == EMFILE || errno == ENFILE))
      closed_until_ = PollSet::Clock::now() + kPauseWithoutRoom;
    if (!fd.is_open()) return;
    greet(std::move(fd));
  }
}

void Door::greet(FileDescriptor fd) {
  auto host = peer_address(fd.get()).host();
  auto& stranger =
      strangers_.emplace_back(Stranger{.connection = Connection(std::move(fd)),
                                       .challenges = {.coordinator = random_hex(kChallengeBytes)},
                                       .deadline = PollSet::Clock::now() + kPatience,
                                       .host = std::move(host)});
  stranger.connection.send(
      encode(ChallengeMessage{.version = kVersion, .challenge = stranger.challenges.coordinator}));
}

bool Door::hear(Stranger& stranger) {
  if (PollSet::Clock::now() >= stranger.deadline) {
    note(stranger.host, "it is not a Lockstep launcher", "it did not say who it is in time");
    return false;
  }
  if (!std::exchange(stranger.has_news, false)) return true;
  stranger.connection.transfer();
  try {
    while (const auto content = stranger.connection.next())
      if (!take(stranger, *content)) return false;
  } catch (const Error& error) {
    if (stranger.proved) {
      turn_away(stranger, error);
      return false;
    }
    stranger.connection.close(error.what());
  }
  if (!stranger.connection.is_open())
    note(stranger.host, "it is not a Lockstep launcher", stranger.connection.problem());
  return stranger.connection.is_open();
}

bool Door::take(Stranger& stranger, std::string_view content) {
  auto message = decode_node_message(content);
  if (!stranger.proved) {
    const auto* proof = message ? std::get_if<NodeProofMessage>(&*message) : nullptr;
    return take_proof(stranger, proof ? *proof : NodeProofMessage{.protocol = 0});
  }
  auto* join = message ? std::get_if<JoinMessage>(&*message) : nullptr;
  if (!join) throw environment_error("it said something before it joined");
  arrivals_.push_back({std::move(stranger.connection), std::move(*join)});
  return false;
}

bool Door::take_proof(Stranger& stranger, const NodeProofMessage& proof) {
  if (proof.protocol != kRendezvousProtocol) {
    turn_away(stranger, other_version(proof.version));
    return false;
  }
  stranger.challenges.node = proof.challenge;
  if (!is_same_proof(proof_of(Side::Node, token_, stranger.challenges), proof.proof)) {
    turn_away(stranger, config_error("this node does not have the job's token: use the same "
                                     "--rdzv-token-file or LOCKSTEP_RDZV_TOKEN on every node"));
    return false;
  }
  stranger.connection.send(encode(
      CoordinatorProofMessage{.proof = proof_of(Side::Coordinator, token_, stranger.challenges)}));
  stranger.connection.trust(Side::Coordinator, token_, stranger.challenges);
  stranger.proved = true;
  return true;
}

void Door::turn_away(Stranger& stranger, const Error& error) {
  stranger.connection.send(encode(RefusedMessage{.kind = error.kind(), .message = error.what()}));
  note(stranger.host, error.what());
}

// `detail` differs from connection to connection, as with a port scanner: the first one is told.
void Door::note(const std::string& host, const std::string& problem, const std::string& detail) {
  auto text = fmt::format("turned {} away: {}", host, problem);
  if (noted_.size() == kMostNotes || std::find(noted_.begin(), noted_.end(), text) != noted_.end())
    return;
  noted_.push_back(text);
  if (!detail.empty())
    text += fmt::format(": {} (others like it from there are turned away without a word)", detail);
  notes_.push_back(std::move(text));
}

}  // namespace lockstep::launch
