// The loss of the coordinator: launchers in one process, without workers, exchange messages.
#include <fcntl.h>
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>

#include "launch/protocol/address.h"
#include "launch/rendezvous/rendezvous_role.h"
#include "lockstep/error.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;

struct NoJudge : StatusJudge {
  void begin_attempt() override {}
  std::optional<StackRequest> judge(const std::map<int, NodeStatus>&) override {
    return std::nullopt;
  }
  void explain(LaunchReport&) const override {}
};

// The launcher of a node with two ranks.
struct Launcher {
  LaunchOptions options;
  NoJudge judge;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<RendezvousClient> client;
  std::vector<std::string> notes;

  explicit Launcher(const LaunchOptions& of) : options(of) {
    auto role = open_rendezvous(options, judge);
    coordinator = std::move(role.coordinator);
    client = std::move(role.client);
    client->hold_events(std::vector<GroupEvent>());
    client->set_ready();
  }
  void watch(PollSet& polls) const {
    if (coordinator) coordinator->watch(polls);
    client->watch(polls);
  }
  void update() {
    if (coordinator) coordinator->update();
    client->update();
    if (!coordinator) return;
    for (auto& note : coordinator->take_notes()) notes.push_back(std::move(note));
  }
};

class Nodes {
 public:
  explicit Nodes(int count, std::chrono::milliseconds keep_alive = 10s) {
    options_.rendezvous.min_nodes = options_.rendezvous.max_nodes = count;
    options_.rendezvous.host = "127.0.0.1";
    options_.rendezvous.keep_alive = keep_alive;
    options_.rendezvous.port = local_address(listen_everywhere(0).get()).port();
    options_.num_workers = 2;
    options_.continues_on_loss = true;
    options_.max_restarts = 1;
    options_.run_id = "run";
    options_.runs_dir = directory_.path();
    for (int node = 0; node < count; ++node) {
      options_.host = "host" + std::to_string(node);
      options_.rendezvous.node_rank = node;
      launchers_.push_back(std::make_unique<Launcher>(options_));
    }
    for (int node = 0; node < count; ++node) {
      next<NodePlace>(node);
      job_ = next<GroupState>(node).job.value();
    }
  }

  Launcher& operator[](int node) { return *launchers_[static_cast<size_t>(node)]; }
  // As node `node`, with the first claim.
  JobClaims claims_of(int node) const {
    return {directory_.path() / "run" / "claims", job_.key, node};
  }
  // The node is no longer there.
  void crash(int node) { launchers_[static_cast<size_t>(node)].reset(); }

  // The next command for a node, of this kind.
  template <class T>
  T next(int node) {
    const auto latest = PollSet::Clock::now() + 60s;
    while (PollSet::Clock::now() < latest) {
      if (auto command = (*this)[node].client->next()) {
        if (auto* wanted = std::get_if<T>(&*command)) return std::move(*wanted);
        throw std::runtime_error("unexpected command");
      }
      run_once();
    }
    throw std::runtime_error("no command received");
  }
  // A stopped process: it neither receives nor sends.
  void freeze(int node) { frozen_ = node; }
  void thaw() { frozen_.reset(); }
  // Another job serves at the address of node `node`, which is lost.
  void use_port_of(int node) {
    const auto address = resolve("127.0.0.1", job_.nodes[static_cast<size_t>(node)].port).front();
    other_job_.emplace(std::move(try_listen(address).fd.value()), "another token");
  }
  // Why a launcher of node `node` is refused that joins node `server`, and only knows the first state.
  std::string refusal_of(int node, int server) {
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
  void run_until(const std::function<bool()>& is_true) {
    const auto latest = PollSet::Clock::now() + 60s;
    while (!is_true()) {
      if (PollSet::Clock::now() >= latest) throw std::runtime_error("not within a minute");
      run_once();
    }
  }
  // How the job ended.
  LaunchReport finish(int node) {
    const auto latest = PollSet::Clock::now() + 60s;
    while (PollSet::Clock::now() < latest) {
      if (auto command = (*this)[node].client->next()) {
        if (const auto* finish = std::get_if<FinishMessage>(&*command)) return finish->report;
      } else {
        run_once();
      }
    }
    throw std::runtime_error("the job has not ended");
  }
  void take_over(int node) {
    auto& [options, judge, coordinator, client, notes] = (*this)[node];
    CHECK(next<CoordinatorLoss>(node).had_ranks);
    coordinator = replace_coordinator(options, next<Takeover>(node), *client, judge);
  }
  void ask(int node, int worker, int64_t step) {
    (*this)[node].client->report_groups(
        {{.worker = worker, .request = {.step = step, .port = 1000 + worker}}});
  }

 private:
  template <class T>
  T receive(Connection& connection) {
    std::optional<std::string> content;
    run_until([&] {
      connection.transfer();
      content = connection.next();
      return content.has_value();
    });
    return std::get<T>(decode_coordinator_message(*content).value());
  }
  void run_once() {
    PollSet polls;
    for (int node = 0; const auto& launcher : launchers_)
      if (frozen_ != node++ && launcher) launcher->watch(polls);
    if (other_job_) other_job_->watch(polls);
    polls.wait();
    if (other_job_) other_job_->update();
    for (int node = 0; const auto& launcher : launchers_)
      if (frozen_ != node++ && launcher) launcher->update();
  }

  TemporaryDirectory directory_;
  LaunchOptions options_;
  JobState job_;
  std::optional<int> frozen_;
  std::optional<ConnectionAcceptor> other_job_;
  std::vector<std::unique_ptr<Launcher>> launchers_;
};

}  // namespace

TEST_CASE("takeover: the next node serves the rendezvous, the others join it") {
  Nodes nodes(3);
  // The worker asked before the coordinator was lost.
  nodes[2].client->hold_events(std::vector<GroupEvent>{{.worker = 0, .request = {.step = 7}}});
  nodes.crash(0);
  nodes.take_over(1);
  CHECK(nodes.next<CoordinatorLoss>(2).had_ranks);
  const auto state = nodes.next<GroupState>(2);
  REQUIRE(state.job);
  CHECK(state.job->coordinator == 1);
  CHECK_FALSE(state.job->nodes[0].is_present);
  nodes.next<GroupState>(1);
  nodes.ask(1, 0, 7);
  nodes.ask(1, 1, 7);
  nodes.ask(2, 1, 7);
  const auto has_group = [](const GroupState& any) {
    return !any.answers.empty() && any.answers.front().answer.kind == GroupAnswer::Kind::Join;
  };
  auto formed = nodes.next<GroupState>(1);
  while (!has_group(formed)) formed = nodes.next<GroupState>(1);
  REQUIRE(formed.answers.size() == 2);
  CHECK(formed.answers.front().answer.world_size == 4);
  CHECK(formed.answers.front().answer.loss.ranks.size() == 2);
  CHECK(nodes[1].notes.front().find("which served the rendezvous: the connection was closed; this "
                                    "node serves it now, without further restarts") !=
        std::string::npos);

  LaunchReport report;
  report.workers.push_back({.rank = 0});
  nodes[1].client->report_attempt(report, false);
  nodes[2].client->report_attempt(report, false);
  CHECK(nodes.finish(2).succeeded());
}

TEST_CASE("takeover: a side without the claim stops") {
  Nodes nodes(2);
  nodes.crash(0);
  CHECK(nodes.next<CoordinatorLoss>(1).had_ranks);
  auto order = nodes.next<Takeover>(1);
  CHECK(nodes.claims_of(0).claim({0}));
  nodes[1].coordinator =
      replace_coordinator(nodes[1].options, order, *nodes[1].client, nodes[1].judge);
  const auto finish = nodes.next<FinishMessage>(1);
  REQUIRE(finish.error);
  CHECK(finish.error->message.ends_with("another node continues the job without this one"));
  CHECK(nodes[1].coordinator->has_given_way());
}

TEST_CASE("takeover: a job that is being stopped continues on one side only") {
  Nodes nodes(2);
  LaunchReport failed;
  failed.workers.push_back({.rank = 0, .exit = {.code = 1}});
  SECTION("the coordinator claims it first") {
    nodes[0].client->report_attempt(failed, false);
    nodes.next<StopOrder>(1);
    nodes.crash(1);
    nodes.run_until([&] { return std::filesystem::exists(nodes.claims_of(1).file()); });
    CHECK_FALSE(nodes.claims_of(1).claim({1}));
    CHECK_FALSE(nodes[0].coordinator->has_given_way());
  }
  SECTION("the other side has claimed it") {
    CHECK(nodes.claims_of(1).claim({1}));
    nodes[0].client->report_attempt(failed, false);
    nodes.next<StopOrder>(1);
    nodes.crash(1);
    REQUIRE(nodes.next<FinishMessage>(0).error);
    CHECK(nodes[0].coordinator->has_given_way());
  }
}

TEST_CASE("takeover: a node that was lost before does not count") {
  Nodes nodes(4);
  nodes.crash(1);
  for (const int node : {2, 3}) CHECK_FALSE(nodes.next<GroupState>(node).job->nodes[1].is_present);
  nodes.crash(0);
  nodes.freeze(3);
  nodes.take_over(2);
  CHECK(nodes.refusal_of(1, 2) == "the job has continued without this node");
  nodes.thaw();
  const auto state = nodes.next<GroupState>(2);
  CHECK(state.job->nodes[3].is_present);
  CHECK_FALSE(state.job->nodes[1].is_present);
}

TEST_CASE("takeover: a node that was dropped ends") {
  Nodes nodes(2, 100ms);
  nodes.freeze(1);
  CHECK_FALSE(nodes.next<GroupState>(0).job->nodes[1].is_present);
  nodes.thaw();
  nodes.next<CoordinatorLoss>(1);  // its workers are killed
  const auto finish = nodes.next<FinishMessage>(1);
  REQUIRE(finish.error);
  CHECK(
      finish.error->message.ends_with("which serves the rendezvous: it dropped this node; the job "
                                      "has continued without this node"));
}

TEST_CASE("takeover: another job uses the port of the next node") {
  Nodes nodes(3);
  nodes.crash(0);
  nodes.crash(1);
  nodes.use_port_of(1);
  nodes.take_over(2);
  CHECK(nodes.next<GroupState>(2).job->coordinator == 2);
}

TEST_CASE("takeover: a signal meanwhile") {
  Nodes nodes(2);
  nodes.crash(0);
  nodes.take_over(1);
  nodes[1].coordinator->interrupt(SIGTERM);
  nodes.ask(1, 0, 7);
  nodes[1].client->report_groups({{.kind = GroupEvent::Kind::Stopping}});
  SECTION("the job ends, the workers that wait are refused") {
    CHECK(nodes.next<GroupState>(1).job);
    CHECK(nodes.next<FinishMessage>(1).report.interrupted_by == SIGTERM);
    const auto state = nodes.next<GroupState>(1);
    REQUIRE_FALSE(state.answers.empty());
    CHECK(state.answers.back().answer.kind == GroupAnswer::Kind::Refused);
    CHECK_FALSE(nodes.claims_of(0).claim({0}));
  }
  SECTION("another node has claimed it") {
    CHECK(nodes.claims_of(0).claim({0}));
    REQUIRE(nodes.next<FinishMessage>(1).error);
    CHECK(nodes[1].coordinator->has_given_way());
  }
}

TEST_CASE("takeover: a node whose workers are being stopped does not take over") {
  Nodes nodes(2);
  nodes[1].client->hold_events(std::vector<GroupEvent>{{.kind = GroupEvent::Kind::Stopping}});
  nodes.crash(0);
  REQUIRE(nodes.next<FinishMessage>(1).error);
}

}  // namespace lockstep::launch
