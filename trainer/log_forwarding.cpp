#include "trainer/log_forwarding.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/system/durable_file.h"
#include "distributed/objects.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::trainer {
namespace {

constexpr int kForwardingTokenBytes = 32;
constexpr auto kLooksFor = std::chrono::seconds(2);

// A file of a name that nobody has used before: whoever sees it sees the directory itself, and not
// one of the same name that an earlier part of the run left.
class Probe {
 public:
  explicit Probe(const std::filesystem::path& run_dir)
      : path_(run_dir / fmt::format(".seen-by-{}", launch::random_hex(8))) {
    write_file_durably(path_, "");
  }
  ~Probe() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;
  std::string name() const { return path_.filename(); }

 private:
  std::filesystem::path path_;
};

// A network file system may remember for a while that there was no such directory.
bool sees(const std::filesystem::path& run_dir, const std::string& name) {
  const auto latest = std::chrono::steady_clock::now() + kLooksFor;
  std::error_code ignored;
  while (!std::filesystem::exists(run_dir / name, ignored)) {
    if (std::chrono::steady_clock::now() >= latest) return false;
    std::filesystem::directory_iterator(run_dir.parent_path(), ignored);  // asks anew
    ::poll(nullptr, 0, 100);
  }
  return true;
}

// What a rank could not do, for all to know; empty: it could.
template <class Act>
std::string problem_of(const Act& act) {
  try {
    act();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void throw_first_problem(const nlohmann::json& answers) {
  for (size_t rank = 0; rank < answers.size(); ++rank) {
    const auto problem = answers[rank].value("problem", "");
    if (!problem.empty()) throw environment_error(fmt::format("rank {}: {}", rank, problem));
  }
}

std::string url_of(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host, port);
}

// A port that the kernel chose is gone when a receiver stops listening; one that was asked for by
// its number stays for the next.
FileDescriptor listen_at_some_port() {
  for (int tries = 10;; --tries) {
    const int port = launch::local_address(launch::listen_everywhere(0).get()).port();
    try {
      return launch::listen_everywhere(port);
    } catch (const Error&) {
      if (tries == 1) throw;  // taken meanwhile
    }
  }
}

// Rank 0 opens the door, and says where it is.
nlohmann::json open_for_logs(const NodeLogs& node, tracking::Forwarding& forwarding) {
  nlohmann::json answer = nlohmann::json::object();
  answer["problem"] = problem_of([&] {
    forwarding.listener = std::make_shared<const FileDescriptor>(listen_at_some_port());
    answer["to"] =
        url_of(node.ranks.master_addr, launch::local_address(forwarding.listener->get()).port());
    answer["token"] = launch::random_hex(kForwardingTokenBytes);
  });
  return answer;
}

}  // namespace

tracking::Forwarding arrange_forwarding(World& world, const NodeLogs& node) {
  if (node.ranks.world_size == node.ranks.local_world_size) return {};
  const bool is_first = tracking::is_main(world.rank());
  std::optional<Probe> probe;
  nlohmann::json asked = nlohmann::json::object();
  if (is_first) {
    asked["problem"] = problem_of([&] { probe.emplace(node.run_dir); });
    if (probe) asked["name"] = probe->name();
  }
  asked = distributed::broadcast_object(world, asked, 0, "shared run directory");
  throw_first_problem(nlohmann::json::array({asked}));
  const auto answers =
      distributed::all_gather_object(world,
                                     nlohmann::json{{"node", node.ranks.node_rank},
                                                    {"sees", sees(node.run_dir, asked["name"])},
                                                    {"logs", node.logs}},
                                     "shared run directory");
  tracking::Forwarding forwarding;
  std::set<int> apart;
  for (const auto& answer : answers) {
    if (answer["sees"].get<bool>()) continue;
    apart.insert(answer["node"].get<int>());
    forwarding.num_logs += answer["logs"].get<bool>() ? 1 : 0;
  }
  if (apart.empty()) return {};

  nlohmann::json door;
  if (is_first) door = open_for_logs(node, forwarding);
  door = distributed::broadcast_object(world, door, 0, "forwarding of logs");
  throw_first_problem(nlohmann::json::array({door}));
  const bool is_apart = apart.contains(node.ranks.node_rank);
  const auto problem = problem_of([&] {
    if (is_apart && node.ranks.local_rank == 0) node.make_run_dir();
  });
  throw_first_problem(distributed::all_gather_object(world, nlohmann::json{{"problem", problem}},
                                                     "run directories"));
  forwarding.token = door["token"];
  if (is_first) forwarding.from_nodes.assign(apart.begin(), apart.end());
  if (is_apart) forwarding.to = door["to"];
  return forwarding;
}

}  // namespace lockstep::trainer
