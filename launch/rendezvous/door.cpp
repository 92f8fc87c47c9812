#include "launch/rendezvous/door.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "core/error.h"
#include "core/printable.h"
#include "core/version.h"
#include "launch/rendezvous/address.h"
#include "launch/rendezvous/messages.h"
#include "launch/rendezvous/token.h"

namespace lockstep {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostStrangers = 256;
constexpr std::chrono::seconds kPatience{10};
constexpr std::chrono::milliseconds kPatienceInACrowd{500};
constexpr std::chrono::milliseconds kPauseWithoutRoom{500};
constexpr size_t kMostNotes = 20;
constexpr int kChallengeBytes = 32;
constexpr size_t kLongestVersion = 40;

std::string member_text(const Json& message, const char* name) {
  const auto found = message.find(name);
  return found != message.end() && found->is_string() ? found->get<std::string>() : "";
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
  stranger.connection.send({{"type", "challenge"},
                            {"protocol", kRendezvousProtocol},
                            {"version", kVersion},
                            {"challenge", stranger.challenges.coordinator}});
}

bool Door::hear(Stranger& stranger) {
  if (PollSet::Clock::now() >= stranger.deadline) {
    note(stranger.host, "it is not a Lockstep launcher", "it did not say who it is in time");
    return false;
  }
  if (!std::exchange(stranger.has_news, false)) return true;
  stranger.connection.transfer();
  while (const auto message = stranger.connection.next()) {
    if (stranger.proved) {
      arrivals_.push_back({std::move(stranger.connection), *message});
      return false;
    }
    if (!take_proof(stranger, *message)) return false;
  }
  if (!stranger.connection.is_open())
    note(stranger.host, "it is not a Lockstep launcher", stranger.connection.problem());
  return stranger.connection.is_open();
}

bool Door::take_proof(Stranger& stranger, const Json& message) {
  const auto version = printable(member_text(message, "version").substr(0, kLongestVersion));
  if (type_of(message) != "proof" || message.value("protocol", Json()) != kRendezvousProtocol) {
    turn_away(stranger, fmt::format("this is Lockstep {}, whose rendezvous speaks protocol {}; the "
                                    "node has Lockstep {}: install the same version",
                                    kVersion, kRendezvousProtocol, version));
    return false;
  }
  stranger.challenges.node = member_text(message, "challenge");
  const auto expected = proof_of(Side::Node, token_, stranger.challenges);
  if (!is_same_proof(expected, member_text(message, "proof"))) {
    turn_away(stranger,
              "this node does not have the job's token: use the same --rdzv-token-file "
              "or LOCKSTEP_RDZV_TOKEN on every node");
    return false;
  }
  stranger.connection.send(
      {{"type", "proof"}, {"proof", proof_of(Side::Coordinator, token_, stranger.challenges)}});
  stranger.connection.trust(Side::Coordinator, token_, stranger.challenges);
  stranger.proved = true;
  return true;
}

void Door::turn_away(Stranger& stranger, const std::string& message) {
  stranger.connection.send(refusal(config_error(message)));
  note(stranger.host, message);
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

}  // namespace lockstep
