#include "tests/launch/launcher_nodes.h"

#include <fcntl.h>
#include <sys/socket.h>

namespace lockstep::launch {

LauncherNodes::LauncherNodes(int count, std::chrono::milliseconds keep_alive) {
  options_.rendezvous.min_nodes = options_.rendezvous.max_nodes = count;
  options_.rendezvous.host = "127.0.0.1";
  options_.rendezvous.keep_alive = keep_alive;
  options_.rendezvous.port = local_address(listen_everywhere(0).get()).port();
  options_.continues_on_loss = true;
  options_.max_restarts = 1;
  options_.run_id = "run";
  options_.runs_dir = directory_.path();
  launchers_.resize(static_cast<size_t>(count));
  for (int node = 0; node < count; ++node) start(node);
  for (int node = 0; node < count; ++node) {
    next<NodePlace>(node);
    job_ = next<GroupState>(node).job.value();
  }
}

std::string LauncherNodes::refusal_of(int node, int server) {
  const auto address = resolve("127.0.0.1", job_.nodes[static_cast<size_t>(server)].port).front();
  FileDescriptor fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  REQUIRE(::connect(fd.get(), address.get(), address.size) == 0);
  REQUIRE(::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
  Connection connection(std::move(fd));
  const auto challenge = receive<ChallengeMessage>(connection).challenge;
  const Challenges challenges{.coordinator = challenge, .node = "b"};
  connection.send(
      encode(NodeProofMessage{.challenge = "b", .proof = proof_of(Side::Node, "", challenges)}));
  receive<CoordinatorProofMessage>(connection);
  connection.trust(Side::Node, "", challenges);
  connection.send(encode(JoinMessage{.host = "late",
                                     .num_workers = 2,
                                     .node_rank = node,
                                     .returning = ReturningNode{.node = node, .job = job_}}));
  return receive<RefusedMessage>(connection).message;
}

FinishMessage LauncherNodes::last_message(int node) {
  const auto latest = PollSet::Clock::now() + std::chrono::seconds(60);
  while (PollSet::Clock::now() < latest) {
    if (auto command = (*this)[node].client->next()) {
      if (const auto* finish = std::get_if<FinishMessage>(&*command)) return *finish;
    } else {
      run_once();
    }
  }
  throw std::runtime_error("the job has not ended");
}

void LauncherNodes::take_over(int node) {
  auto& [options, judge, coordinator, client, notes] = (*this)[node];
  CHECK(next<CoordinatorLoss>(node).had_ranks);
  coordinator = replace_coordinator(options, next<Takeover>(node), *client, judge);
}

void LauncherNodes::lose_second() {
  crash(1);
  for (const int worker : {0, 1}) ask(0, worker, 7);
  CHECK(answer_to(0, GroupAnswer::Kind::Join).world_size == 2);
}

int LauncherNodes::use_port_of(int node) {
  const auto address = resolve("127.0.0.1", job_.nodes[static_cast<size_t>(node)].port).front();
  other_job_.emplace(std::move(try_listen(address).fd.value()), "another token");
  return address.port();
}

void LauncherNodes::run_until(const std::function<bool()>& is_true) {
  const auto latest = PollSet::Clock::now() + std::chrono::seconds(60);
  while (!is_true()) {
    if (PollSet::Clock::now() >= latest) throw std::runtime_error("not within a minute");
    run_once();
  }
}

void LauncherNodes::run_once() {
  PollSet polls;
  for (int node = 0; const auto& launcher : launchers_)
    if (frozen_ != node++ && launcher) launcher->watch(polls);
  if (other_job_) other_job_->watch(polls);
  polls.wait();
  if (other_job_) other_job_->update();
  for (int node = 0; const auto& launcher : launchers_)
    if (frozen_ != node++ && launcher) launcher->update();
}

void LauncherNodes::start(int node, int num_workers) {
  options_.num_workers = num_workers;
  options_.host = "host" + std::to_string(node);
  options_.rendezvous.node_rank = node;
  launchers_[static_cast<size_t>(node)] = std::make_unique<TestLauncher>(options_);
}

void LauncherNodes::start_another() {
  options_.host = "another";
  options_.rendezvous.node_rank.reset();
  launchers_.push_back(std::make_unique<TestLauncher>(options_));
}

}  // namespace lockstep::launch
