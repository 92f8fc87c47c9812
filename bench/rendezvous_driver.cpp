// Launchers without workers: one process runs the coordinator, one simulates all nodes. They form a
// job, vote once, lose a node, and form the job again (the last-call period is not counted).
// Usage: lockstep_bench_rendezvous NODES. Prints JSON.
#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>

#include "launch/protocol/address.h"
#include "launch/rendezvous/rendezvous_role.h"

namespace lockstep {
namespace {

using Clock = PollSet::Clock;

constexpr std::chrono::seconds kPatience{300};
constexpr std::chrono::milliseconds kLastCall{5000};  // how long other nodes wait for a lost one

launch::LaunchOptions make_options(int num_nodes) {
  launch::LaunchOptions options;
  options.host = "node";
  options.max_restarts = 1;
  auto& rendezvous = options.rendezvous;
  rendezvous.min_nodes = num_nodes - 1;
  rendezvous.max_nodes = num_nodes;
  rendezvous.host = "127.0.0.1";
  rendezvous.token = "benchmark token";
  rendezvous.port = launch::local_address(launch::listen_everywhere(0).get()).port();
  return options;
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

double peak_megabytes() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1024;
}

// Requests a restart once all nodes have voted.
struct Vote : launch::StatusJudge {
  explicit Vote(int num_nodes_) : num_nodes(static_cast<size_t>(num_nodes_)) {}
  void begin_attempt() override {}
  std::optional<launch::StackRequest> judge(
      const std::map<int, launch::NodeStatus>& votes) override {
    return votes.size() == num_nodes ? std::optional(launch::StackRequest{}) : std::nullopt;
  }
  void explain(launch::LaunchReport&) const override {}
  size_t num_nodes;
};

// Simulates the rendezvous of all nodes in one process.
class Nodes {
 public:
  Nodes(std::vector<std::unique_ptr<launch::RendezvousClient>> clients,
        launch::Coordinator* coordinator)
      : clients_(std::move(clients)), coordinator_(coordinator), latest_(Clock::now() + kPatience) {
    for (auto& client : clients_) client->set_ready();
  }

  // Waits until every node has received a message of this type.
  template <class T>
  void await() {
    std::vector<bool> has(clients_.size());
    for (size_t missing = clients_.size(); missing > 0;) {
      turn();
      for (size_t i = 0; i < clients_.size(); ++i)
        while (const auto order = clients_[i]->next()) {
          const auto* finish = std::get_if<launch::FinishMessage>(&*order);
          if (finish && finish->error) throw environment_error(finish->error->message);
          if (std::holds_alternative<T>(*order) && !has[i]) {
            has[i] = true;
            --missing;
          }
        }
    }
  }
  void turn() {
    if (Clock::now() >= latest_) throw environment_error("the rendezvous timed out");
    PollSet polls;
    if (coordinator_) coordinator_->watch(polls);
    for (auto& client : clients_) client->watch(polls);
    polls.wait();
    if (coordinator_) coordinator_->update();
    for (auto& client : clients_) client->update();
  }
  void vote() {
    for (auto& client : clients_) client->report_status({.ranks = {launch::RankView{}}});
  }
  void lose_one() { clients_.pop_back(); }
  void end() {
    launch::LaunchReport report;
    report.workers.push_back({.exit = {.code = 75}, .error = launch::ErrorReport{.peer = true}});
    for (auto& client : clients_) {
      client->report_attempt(report, false);
      client->set_ready();
    }
  }

 private:
  std::vector<std::unique_ptr<launch::RendezvousClient>> clients_;
  launch::Coordinator* coordinator_;
  Clock::time_point latest_;
};

void serve(const launch::LaunchOptions& options, int num_nodes) {
  Vote vote(num_nodes);
  auto rendezvous = open_rendezvous(options, vote);
  std::vector<std::unique_ptr<launch::RendezvousClient>> clients;
  clients.push_back(std::move(rendezvous.client));
  Nodes nodes(std::move(clients), rendezvous.coordinator.get());
  nodes.await<launch::NodePlace>();
  nodes.vote();
  nodes.await<launch::StopOrder>();
  nodes.end();
  nodes.await<launch::NodePlace>();
  rendezvous.coordinator->interrupt(SIGTERM);
  while (!rendezvous.coordinator->is_done()) nodes.turn();
  fmt::print("\"coordinator_mb\": {:.1f}, ", peak_megabytes());
  std::fflush(stdout);
}

void be_nodes(launch::LaunchOptions options, int num_nodes) {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
  options.rendezvous.serves = false;
  const auto begin = Clock::now();
  std::vector<std::unique_ptr<launch::RendezvousClient>> clients;
  Vote vote(num_nodes);
  for (int i = 1; i < num_nodes; ++i) clients.push_back(open_rendezvous(options, vote).client);
  Nodes nodes(std::move(clients), nullptr);
  nodes.await<launch::NodePlace>();
  const auto met = Clock::now();
  nodes.vote();
  nodes.await<launch::StackRequest>();
  const auto voted = Clock::now();
  nodes.lose_one();
  nodes.await<launch::StopOrder>();
  nodes.end();
  nodes.await<launch::NodePlace>();
  const double again = seconds_since(voted) - std::chrono::duration<double>(kLastCall).count();
  fmt::print("\"nodes\": {}, \"meet_s\": {:.4f}, \"vote_s\": {:.4f}, \"lose_one_s\": {:.4f}, ",
             num_nodes, std::chrono::duration<double>(met - begin).count(),
             std::chrono::duration<double>(voted - met).count(), again);
  std::fflush(stdout);
}

int measure(int num_nodes) {
  auto options = make_options(num_nodes);
  options.rendezvous.last_call = kLastCall;
  fmt::print("{{");
  std::fflush(stdout);
  const auto child = ::fork();
  if (child == 0) {
    be_nodes(options, num_nodes);
    ::_exit(0);
  }
  serve(options, num_nodes);
  int status = 0;
  ::waitpid(child, &status, 0);
  fmt::print("\"status\": {}}}\n", status);
  return status == 0 ? 0 : 1;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  try {
    return lockstep::measure(argc > 1 ? std::atoi(argv[1]) : 100);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
