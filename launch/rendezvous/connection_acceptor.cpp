#include "launch/rendezvous/connection_acceptor.h"

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

constexpr size_t kMaxUnauthenticated = 256;
constexpr std::chrono::seconds kHandshakeTimeout{10};
constexpr std::chrono::milliseconds kHandshakeTimeoutWhenFull{500};
constexpr std::chrono::milliseconds kPauseWithoutDescriptors{500};
constexpr size_t kMaxNotes = 20;
constexpr int kChallengeBytes = 32;
constexpr size_t kMaxVersionLength = 40;

Error other_version(const std::string& version) {
  return config_error(
      fmt::format("the rendezvous runs Lockstep {} (protocol {}); the node has Lockstep {}: "
                  "install the same version",
                  kVersion, kRendezvousProtocol, printable(version.substr(0, kMaxVersionLength))));
}

}  // namespace

ConnectionAcceptor::ConnectionAcceptor(FileDescriptor listener, std::string token)
    : listener_(std::move(listener)), token_(std::move(token)) {}

void ConnectionAcceptor::watch(PollSet& polls) {
  make_room();
  if (listener_.is_open() && PollSet::Clock::now() >= paused_until_)
    polls.watch({.fd = listener_.get(), .events = POLLIN, .revents = 0},
                [this](short) { accept_ready_ = true; });
  for (auto& client : unauthenticated_) {
    polls.watch(client.connection.poll_request(), [&](short) { client.is_ready = true; });
    polls.wake_at(client.deadline);
  }
  if (unauthenticated_.size() >= kMaxUnauthenticated) polls.wake_at(paused_until_);
}

void ConnectionAcceptor::update() {
  const bool was_full = unauthenticated_.size() >= kMaxUnauthenticated;
  for (auto it = unauthenticated_.begin(); it != unauthenticated_.end();)
    it = receive(*it) ? std::next(it) : unauthenticated_.erase(it);
  if (was_full && unauthenticated_.size() < kMaxUnauthenticated) paused_until_ = {};
  if (std::exchange(accept_ready_, false)) accept_some();
}

// Many nodes that connect simultaneously wait in the socket's queue until they are served. Only a
// connection that does not authenticate is dropped before its deadline.
void ConnectionAcceptor::make_room() {
  if (unauthenticated_.size() < kMaxUnauthenticated) return;
  const auto now = PollSet::Clock::now();
  const auto oldest = std::find_if(unauthenticated_.begin(), unauthenticated_.end(),
                                   [](const auto& client) { return !client.proved; });
  const auto drop_at = oldest == unauthenticated_.end()
                           ? now + kHandshakeTimeoutWhenFull
                           : oldest->deadline - kHandshakeTimeout + kHandshakeTimeoutWhenFull;
  if (now >= drop_at)
    unauthenticated_.erase(oldest);
  else
    paused_until_ = std::max(paused_until_, drop_at);
}

void ConnectionAcceptor::accept_some() {
  while (unauthenticated_.size() < kMaxUnauthenticated) {
    FileDescriptor fd(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!fd.is_open() && (errno == EMFILE || errno == ENFILE))
      paused_until_ = PollSet::Clock::now() + kPauseWithoutDescriptors;
    if (!fd.is_open()) return;
    start_handshake(std::move(fd));
  }
}

void ConnectionAcceptor::start_handshake(FileDescriptor fd) {
  auto host = remote_address(fd.get()).host();
  auto& client = unauthenticated_.emplace_back(
      Client{.connection = Connection(std::move(fd)),
             .challenges = {.coordinator = random_hex(kChallengeBytes)},
             .deadline = PollSet::Clock::now() + kHandshakeTimeout,
             .host = std::move(host)});
  client.connection.send(
      encode(ChallengeMessage{.version = kVersion, .challenge = client.challenges.coordinator}));
}

bool ConnectionAcceptor::receive(Client& client) {
  if (PollSet::Clock::now() >= client.deadline) {
    note(client.host, "it is not a Lockstep launcher", "it did not authenticate in time");
    return false;
  }
  if (!std::exchange(client.is_ready, false)) return true;
  client.connection.transfer();
  try {
    while (const auto content = client.connection.next())
      if (!handle(client, *content)) return false;
  } catch (const Error& error) {
    if (client.proved) {
      reject(client, error);
      return false;
    }
    client.connection.close(error.what());
  }
  if (!client.connection.is_open())
    note(client.host, "it is not a Lockstep launcher", client.connection.problem());
  return client.connection.is_open();
}

bool ConnectionAcceptor::handle(Client& client, std::string_view content) {
  auto message = decode_node_message(content);
  if (!client.proved) {
    const auto* proof = message ? std::get_if<NodeProofMessage>(&*message) : nullptr;
    return verify_proof(client, proof ? *proof : NodeProofMessage{.protocol = 0});
  }
  auto* join = message ? std::get_if<JoinMessage>(&*message) : nullptr;
  if (!join) throw environment_error("message received before it joined");
  arrivals_.push_back({std::move(client.connection), std::move(*join)});
  return false;
}

bool ConnectionAcceptor::verify_proof(Client& client, const NodeProofMessage& proof) {
  if (proof.protocol != kRendezvousProtocol) {
    reject(client, other_version(proof.version));
    return false;
  }
  client.challenges.node = proof.challenge;
  if (!is_same_proof(proof_of(Side::Node, token_, client.challenges), proof.proof)) {
    reject(client, config_error("this node does not have the job's token: use the same "
                                "--rdzv-token-file or LOCKSTEP_RDZV_TOKEN on every node"));
    return false;
  }
  client.connection.send(encode(
      CoordinatorProofMessage{.proof = proof_of(Side::Coordinator, token_, client.challenges)}));
  client.connection.trust(Side::Coordinator, token_, client.challenges);
  client.proved = true;
  return true;
}

void ConnectionAcceptor::reject(Client& client, const Error& error) {
  client.connection.send(encode(RefusedMessage{.kind = error.kind(), .message = error.what()}));
  note(client.host, error.what());
}

// `detail` may differ between connections (a port scanner): only the first one is reported.
void ConnectionAcceptor::note(const std::string& host, const std::string& problem,
                              const std::string& detail) {
  auto text = fmt::format("rejected {}: {}", host, problem);
  if (noted_.size() == kMaxNotes || std::find(noted_.begin(), noted_.end(), text) != noted_.end())
    return;
  noted_.push_back(text);
  if (!detail.empty())
    text += fmt::format(": {} (further ones from this host are rejected silently)", detail);
  notes_.push_back(std::move(text));
}

}  // namespace lockstep::launch
