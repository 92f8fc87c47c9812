// Coordinator and clients in one process, without workers: they only exchange messages.
#include <sys/socket.h>

#include <catch2/catch.hpp>
#include <csignal>

#include "launch/protocol/address.h"
#include "launch/protocol/frame.h"
#include "launch/rendezvous/rendezvous_role.h"
#include "lockstep/error.h"

namespace lockstep::launch {
namespace {

using namespace std::chrono_literals;

// Adds up the numbers of the ranks.
struct Sum : StatusJudge {
  void begin_attempt() override { ++num_attempts; }
  std::optional<StackRequest> judge(const std::map<int, NodeStatus>& by_node) override {
    if (by_node.size() != 2) return std::nullopt;
    return StackRequest{.ranks = {by_node.at(0).ranks.at(0).progress.rank +
                                  by_node.at(1).ranks.at(0).progress.rank}};
  }
  void explain(LaunchReport& attempt) const override { attempt.last_step = num_attempts; }
  int num_attempts = 0;
};

// The rendezvous of a job: each iteration updates the coordinator and all clients.
class Job {
 public:
  Job(int min_nodes, int max_nodes, int max_restarts = 0) {
    options_.rendezvous.min_nodes = min_nodes;
    options_.rendezvous.max_nodes = max_nodes;
    options_.rendezvous.host = "127.0.0.1";
    options_.rendezvous.last_call = 200ms;
    options_.max_restarts = max_restarts;
    options_.host = "host0";
    options_.run_id = "run";
    const auto free = listen_everywhere(0);
    options_.rendezvous.port = local_address(free.get()).port();
  }

  // The first node serves the rendezvous. Returns its number.
  size_t add_node(std::optional<int> node_rank = std::nullopt, int num_workers = 1) {
    auto options = options_;
    options.rendezvous.node_rank = node_rank;
    options.num_workers = num_workers;
    options.host = "host" + std::to_string(clients_.size());
    auto role = open_rendezvous(options, judge_);
    if (role.coordinator) coordinator_ = std::move(role.coordinator);
    clients_.push_back(std::move(role.client));
    clients_.back()->set_ready();
    return clients_.size() - 1;
  }

  // The next command for a node.
  template <class T>
  T next(size_t node) {
    const auto latest = PollSet::Clock::now() + 60s;
    while (PollSet::Clock::now() < latest) {
      if (auto command = clients_[node]->next()) {
        if (auto* wanted = std::get_if<T>(&*command)) return std::move(*wanted);
        throw std::runtime_error("unexpected command");
      }
      run_once();
    }
    throw std::runtime_error("no command received");
  }
  void end(size_t node, int code, bool is_peer = false, const std::string& reason = {}) {
    LaunchReport report;
    report.workers.push_back(
        {.rank = static_cast<int>(node), .exit = {.code = code}, .time_us = unix_time_us()});
    if (!reason.empty()) report.workers.back().error = ErrorReport{.message = reason};
    if (is_peer) report.workers.back().error = ErrorReport{.message = "peer", .peer = true};
    clients_[node]->report_attempt(report, false);
    clients_[node]->set_ready();
  }
  // Waits for a note of the coordinator that contains `text`.
  void await_note(const std::string& text) {
    const auto latest = PollSet::Clock::now() + 60s;
    while (PollSet::Clock::now() < latest) {
      for (const auto& note : coordinator_->take_notes())
        if (note.find(text) != std::string::npos) return;
      run_once();
    }
    throw std::runtime_error("no such note");
  }
  // Simulates a stopped process: it neither receives nor sends.
  void freeze(size_t node) { frozen_ = node; }
  void disconnect(size_t node) { clients_[node]->leave(); }
  // The coordinator detects it when it sends, before it has polled the connection.
  void disconnect_while_coordinator_sends(size_t node) {
    disconnect(node);
    for (int i = 0; i < 10; ++i) {
      PollSet next_keep_alive;
      next_keep_alive.wake_at(PollSet::Clock::now() + options_.rendezvous.keep_alive);
      next_keep_alive.wait();
      coordinator_->update();
    }
  }
  void report_status(size_t node, int rank) {
    clients_[node]->report_status({.ranks = {RankView{.progress = {.rank = rank}}}});
  }
  LaunchOptions& options() { return options_; }
  // An unauthenticated connection that sends `text`. Keep it open until that has been received.
  FileDescriptor connect_and_send(const std::string& text) const {
    const auto address = resolve(options_.rendezvous.host, options_.rendezvous.port).front();
    FileDescriptor fd(::socket(address.get()->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    REQUIRE(::connect(fd.get(), address.get(), address.size) == 0);
    REQUIRE(::send(fd.get(), text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
    return fd;
  }
  std::vector<std::string> take_notes() { return coordinator_->take_notes(); }

 private:
  void run_once() {
    PollSet polls;
    coordinator_->watch(polls);
    for (size_t i = 0; i < clients_.size(); ++i)
      if (frozen_ != i) clients_[i]->watch(polls);
    polls.wait();
    coordinator_->update();
    for (size_t i = 0; i < clients_.size(); ++i)
      if (frozen_ != i) clients_[i]->update();
  }

  LaunchOptions options_;
  Sum judge_;
  std::unique_ptr<Coordinator> coordinator_;
  std::vector<std::unique_ptr<RendezvousClient>> clients_;
  std::optional<size_t> frozen_;
};

}  // namespace

TEST_CASE("rendezvous: nodes get consecutive ranks and the address of node 0") {
  Job job(2, 2);
  job.add_node(std::nullopt, 3);
  job.add_node(std::nullopt, 2);
  const auto first = job.next<NodePlace>(0), second = job.next<NodePlace>(1);
  CHECK(first.node_rank == 0);
  CHECK(second.node_rank == 1);
  CHECK(first.first_rank == 0);
  CHECK(second.first_rank == 3);
  CHECK(second.world_size == 5);
  CHECK(second.num_nodes == 2);
  CHECK(second.master_addr == "127.0.0.1");
  CHECK(second.address == "127.0.0.1");
  CHECK(second.master_port == first.master_port);
  CHECK(second.run_id == "run");
}

TEST_CASE("rendezvous: node ranks set by the user determine the order") {
  Job job(3, 3);
  job.add_node(2);
  job.add_node(0);
  job.add_node(1);
  CHECK(job.next<NodePlace>(0).node_rank == 2);
  CHECK(job.next<NodePlace>(1).node_rank == 0);
  CHECK(job.next<NodePlace>(2).node_rank == 1);
}

TEST_CASE("rendezvous: a failure stops all nodes, and all get the rank that failed") {
  Job job(2, 2);
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.end(1, 70);
  job.next<StopOrder>(0);
  job.end(0, 75, true);
  for (const size_t node : {0, 1}) {
    const auto finish = job.next<FinishMessage>(node);
    REQUIRE(finish.report.cause());
    CHECK(finish.report.cause()->rank == 1);
    CHECK(finish.report.exit_code() == 70);
  }
}

TEST_CASE("rendezvous: a failed attempt is restarted until no restart is left") {
  Job job(2, 2, 1);
  job.add_node();
  job.add_node();
  for (const int attempt : {0, 1}) {
    CHECK(job.next<NodePlace>(0).restart_count == attempt);
    CHECK(job.next<NodePlace>(1).restart_count == attempt);
    job.end(1, 75, false, "the disk is full\nand more");
    job.next<StopOrder>(0);
    job.end(0, 75, true);
    if (attempt == 0)
      job.await_note(
          "restart 1 of 1: rank 1 (of 2) failed first: exited with code 75 (the "
          "environment failed; a restart may help)\n  the disk is full");
  }
  CHECK(job.next<FinishMessage>(0).report.restarts == 1);
}

TEST_CASE("rendezvous: an input error is final") {
  Job job(1, 1, 5);
  job.add_node();
  job.next<NodePlace>(0);
  job.end(0, 78);
  CHECK(job.next<FinishMessage>(0).report.exit_code() == 78);
}

TEST_CASE("rendezvous: after the loss of a node the others continue if enough are left") {
  Job job(2, 3, 1);
  for (int i = 0; i < 3; ++i) job.add_node();
  for (const size_t node : {0, 1, 2}) job.next<NodePlace>(node);
  job.disconnect(1);
  for (const size_t node : {0, 2}) {
    job.next<StopOrder>(node);
    job.end(node, 75, true);
  }
  CHECK(job.next<NodePlace>(0).num_nodes == 2);
  const auto last = job.next<NodePlace>(2);
  CHECK(last.node_rank == 1);
  CHECK(last.restart_count == 1);
}

TEST_CASE("rendezvous: a node whose connection fails while sending is dropped too") {
  Job job(2, 2, 1);
  job.options().rendezvous.keep_alive = 1ms;
  job.options().rendezvous.keep_alive_attempts = 1'000'000;
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.disconnect_while_coordinator_sends(1);
  // Ranks that were stopped because of the loss exit gracefully.
  job.next<StopOrder>(0);
  job.end(0, 128 + SIGTERM);
  job.add_node();
  CHECK(job.next<NodePlace>(0).restart_count == 1);
  CHECK(job.next<NodePlace>(2).restart_count == 1);
}

TEST_CASE("rendezvous: when ranks exit after a signal, it is reported to every node") {
  Job job(2, 2, 1);
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.end(0, 128 + SIGTERM);
  job.next<StopOrder>(1);
  job.end(1, 128 + SIGTERM);
  for (const size_t node : {0, 1}) {
    const auto report = job.next<FinishMessage>(node).report;
    CHECK(report.exit_code() == 143);
    CHECK(report.summary() == "the ranks exited after SIGTERM");
  }
}

TEST_CASE("rendezvous: a new node waits for the next restart, a surviving one keeps its place") {
  Job job(1, 2, 1);
  job.add_node();
  job.next<NodePlace>(0);
  job.add_node();
  job.await_note("host1 (127.0.0.1) joined: it will take part after the next restart");
  job.end(0, 75);
  CHECK(job.next<NodePlace>(0).node_rank == 0);
  CHECK(job.next<NodePlace>(1).node_rank == 1);
}

TEST_CASE("rendezvous: a node beyond the maximum is a spare") {
  Job job(2, 2, 1);
  for (int i = 0; i < 3; ++i) job.add_node();
  for (const size_t node : {0, 1}) CHECK(job.next<NodePlace>(node).num_nodes == 2);
  job.disconnect(1);
  job.next<StopOrder>(0);
  job.end(0, 75, true);
  CHECK(job.next<NodePlace>(0).node_rank == 0);
  CHECK(job.next<NodePlace>(2).node_rank == 1);
}

TEST_CASE("rendezvous: a node rank is unique as long as its node responds") {
  Job job(2, 2, 1);
  job.options().rendezvous.keep_alive = 100ms;
  job.add_node(0);
  job.add_node(1);
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  SECTION("it responds: the new node gets an error") {
    const auto error = job.next<FinishMessage>(job.add_node(1)).error;
    REQUIRE(error);
    CHECK(error->message ==
          "--node-rank 1 is already used by host1 (127.0.0.1): each node needs its own");
  }
  SECTION("it does not: the new node takes its place") {
    job.freeze(1);
    job.add_node(1);
    job.next<StopOrder>(0);
    job.end(0, 75, true);
    CHECK(job.next<NodePlace>(0).restart_count == 1);
    CHECK(job.next<NodePlace>(2).node_rank == 1);
  }
}

TEST_CASE("rendezvous: a lost node is the cause if the others only lost a peer") {
  Job job(2, 2);
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.disconnect(1);
  job.next<StopOrder>(0);
  job.end(0, 75, true);
  const auto report = job.next<FinishMessage>(0).report;
  REQUIRE(report.node_cause());
  CHECK(report.summary() == "node 1 on host1 (127.0.0.1): lost: the connection was closed");
  CHECK(report.exit_code() == 75);
}

TEST_CASE("rendezvous: a node that was dropped while its workers exited reports without an error") {
  Job job(2, 2, 1);
  job.options().rendezvous.keep_alive = 100ms;
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.freeze(1);
  job.next<StopOrder>(0);
  job.report_status(1, 1);  // the peer has closed the connection: this detects it, the next fails
  CHECK_NOTHROW(job.end(1, 75, true));
}

TEST_CASE("rendezvous: waiting for nodes times out") {
  Job job(2, 2);
  job.options().rendezvous.join_timeout = 50ms;
  job.add_node();
  const auto report = job.next<FinishMessage>(0).report;
  CHECK(report.summary() == "timed out after 0.05 s: 1 of 2 required nodes joined");
  CHECK(report.exit_code() == 75);
}

TEST_CASE("rendezvous: the status of all nodes is judged, and the request goes to all") {
  Job job(2, 2);
  job.add_node();
  job.add_node();
  job.next<NodePlace>(0);
  job.next<NodePlace>(1);
  job.report_status(0, 40);
  job.report_status(1, 2);
  CHECK(job.next<StackRequest>(0).ranks == std::vector{42});
  CHECK(job.next<StackRequest>(1).ranks == std::vector{42});
}

TEST_CASE("rendezvous: a node with another token or other agreements gets the reason") {
  Job job(2, 2);
  job.options().rendezvous.agreements = {{"--rdzv-id", "one"}};
  job.add_node();
  SECTION("agreement") {
    job.options().rendezvous.agreements = {{"--rdzv-id", "two"}};
    const auto error = job.next<FinishMessage>(job.add_node()).error;
    REQUIRE(error);
    CHECK(error->kind == "config");
    CHECK(error->message ==
          "--rdzv-id is 'two' on host1 (127.0.0.1), but 'one' on host0, which serves the "
          "rendezvous: it must be the same on every node");
  }
  SECTION("token") {
    job.options().rendezvous.token = "something quite different";
    const auto error = job.next<FinishMessage>(job.add_node()).error;
    REQUIRE(error);
    CHECK(error->message.starts_with("this node does not have the job's token"));
  }
}

TEST_CASE("rendezvous: connections that send garbage are reported once per host") {
  Job job(2, 2);
  job.add_node();
  std::vector<FileDescriptor> connections;
  for (const char* garbage : {"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01 and more", "0000 {}", "9999"})
    connections.push_back(job.connect_and_send(garbage));
  job.add_node();
  for (const size_t node : {0, 1}) job.next<NodePlace>(node);
  int num_reported = 0;
  for (const auto& note : job.take_notes())
    num_reported += note.starts_with("rejected 127.0.0.1: it is not a Lockstep launcher: ");
  CHECK(num_reported == 1);
}

TEST_CASE("rendezvous: a node of another version is reported on one line") {
  Job job(2, 2);
  job.add_node();
  const auto connection = job.connect_and_send(
      make_frame(R"({"type": "proof", "protocol": 2, "version": "9.9.9", "key": "of then"})"));
  job.await_note("; the node has Lockstep 9.9.9: install the same version");
}

}  // namespace lockstep::launch
