// Launchers of several nodes in one process, without workers: they exchange messages.
#pragma once

#include <catch2/catch.hpp>
#include <functional>

#include "launch/protocol/address.h"
#include "launch/rendezvous/rendezvous_role.h"
#include "tests/temporary_directory.h"

namespace lockstep::launch {

struct NoJudge : StatusJudge {
  void begin_attempt() override {}
  std::optional<StackRequest> judge(const std::map<int, NodeStatus>&) override {
    return std::nullopt;
  }
  void explain(LaunchReport&) const override {}
};

// The launcher of a node with two ranks.
struct TestLauncher {
  LaunchOptions options;
  NoJudge judge;
  std::unique_ptr<Coordinator> coordinator;
  std::unique_ptr<RendezvousClient> client;
  std::vector<std::string> notes;

  explicit TestLauncher(const LaunchOptions& of) : options(of) {
    auto role = open_rendezvous(options, judge, moved_rendezvous(options)->find());
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

class LauncherNodes {
 public:
  explicit LauncherNodes(int count,
                         std::chrono::milliseconds keep_alive = std::chrono::seconds(10));

  TestLauncher& operator[](int node) { return *launchers_[static_cast<size_t>(node)]; }
  MovedRendezvous moved() const { return moved_rendezvous(options_).value(); }
  // As node `node`, with the first claim.
  JobClaims claims_of(int node) const {
    return {directory_.path() / "run" / "claims", job_.key, node};
  }
  void start(int node, int num_workers = 2);
  // The next node, which has no number.
  void start_another();
  // The node is no longer there.
  void crash(int node) { launchers_[static_cast<size_t>(node)].reset(); }

  // The next command for a node, of this kind.
  template <class T>
  T next(int node) {
    const auto latest = PollSet::Clock::now() + std::chrono::seconds(60);
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
  // Another job serves at the address of node `node`, which is lost; returns the port.
  int use_port_of(int node);
  // Why a launcher of node `node` is refused that joins node `server`, and only knows the first state.
  std::string refusal_of(int node, int server);
  void run_until(const std::function<bool()>& is_true);
  // How the job ended.
  LaunchReport finish(int node) { return last_message(node).report; }
  FinishMessage last_message(int node);
  void take_over(int node);
  void ask(int node, int worker, int64_t step,
           GroupRequest::Kind kind = GroupRequest::Kind::Broken) {
    (*this)[node].client->report_groups(
        {{.worker = worker, .request = {.kind = kind, .step = step, .port = 1000 + worker}}});
  }
  // The next answer to a worker of the node.
  GroupAnswer answer_to(int node, GroupAnswer::Kind kind) {
    while (true)
      for (const auto& [worker, answer] : next<GroupState>(node).answers)
        if (answer.kind == kind) return answer;
  }
  // Node 1, of two, is lost, and the other one continues.
  void lose_second();

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
  void run_once();

  TemporaryDirectory directory_;
  LaunchOptions options_;
  JobState job_;
  std::optional<int> frozen_;
  std::optional<ConnectionAcceptor> other_job_;
  std::vector<std::unique_ptr<TestLauncher>> launchers_;
};

}  // namespace lockstep::launch
