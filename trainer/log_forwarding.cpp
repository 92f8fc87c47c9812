#include "trainer/log_forwarding.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <chrono>
#include <set>

#include "core/system/durable_file.h"
#include "core/system/local_address.h"
#include "distributed/objects.h"
#include "launch/protocol/address.h"
#include "launch/protocol/token.h"
#include "lockstep/error.h"
#include "tracking/runs/on_ranks.h"

namespace lockstep::trainer {
namespace {

constexpr int kForwardingTokenBytes = 32;
constexpr auto kProbeTimeout = std::chrono::seconds(2);
constexpr auto kRequiredProbeTimeout = std::chrono::seconds(30);  // if the job ends without it

// A file with a unique name: a node that sees it sees this directory, not one of the same name
// that an earlier part of the run left.
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

// Polls, since a network file system may cache for a while that the directory did not exist.
bool can_see(const std::filesystem::path& run_dir, const std::string& name,
             std::chrono::seconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::error_code ignored;
  while (!std::filesystem::exists(run_dir / name, ignored)) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::filesystem::directory_iterator(run_dir.parent_path(), ignored);  // revalidates the cache
    ::poll(nullptr, 0, 100);
  }
  return true;
}

// Returns the message of what `act` throws; empty if it succeeds.
template <class Act>
std::string error_of(const Act& act) {
  try {
    act();
    return "";
  } catch (const std::exception& error) {
    return error.what();
  }
}

void throw_first_problem(const nlohmann::json& replies) {
  for (size_t rank = 0; rank < replies.size(); ++rank) {
    const auto problem = replies[rank].value("problem", "");
    if (!problem.empty()) throw environment_error(fmt::format("rank {}: {}", rank, problem));
  }
}

void verify_shared(const nlohmann::json& replies, const std::filesystem::path& run_dir) {
  for (const auto& reply : replies)
    if (!reply["sees"].get<bool>())
      throw config_error(fmt::format(
          "--on-rank-loss continue needs a run.dir that all nodes share, but node {} ({}) does not "
          "see {}, which rank 0 has created",
          reply["node"].get<int>(), reply["host"].get<std::string>(), run_dir.string()));
}

std::string url_of(const std::string& host, int port) {
  const bool is_v6 = host.find(':') != std::string::npos;
  return fmt::format("http://{}:{}", is_v6 ? "[" + host + "]" : host, port);
}

// Listens on a port that the kernel chose, but bound by number, so that the next receiver can bind
// it again.
FileDescriptor listen_on_free_port() {
  for (int tries = 10;; --tries) {
    const int port = launch::local_address(launch::listen_everywhere(0).get()).port();
    try {
      return launch::listen_everywhere(port);
    } catch (const Error&) {
      if (tries == 1) throw;  // taken in the meantime
    }
  }
}

// On rank 0: starts to listen for logs. Returns URL and token.
nlohmann::json listen_for_logs(const NodeLogs& node, tracking::Forwarding& forwarding) {
  nlohmann::json reply = nlohmann::json::object();
  reply["problem"] = error_of([&] {
    forwarding.listener = std::make_shared<const FileDescriptor>(listen_on_free_port());
    reply["to"] =
        url_of(node.ranks.master_addr, launch::local_address(forwarding.listener->get()).port());
    reply["token"] = launch::random_hex(kForwardingTokenBytes);
  });
  return reply;
}

}  // namespace

tracking::Forwarding arrange_forwarding(World& world, const NodeLogs& node) {
  if (node.ranks.world_size == node.ranks.local_world_size) return {};
  const bool is_first = tracking::is_main(world.rank());
  std::optional<Probe> probe;
  nlohmann::json probe_info = nlohmann::json::object();
  if (is_first) {
    probe_info["problem"] = error_of([&] { probe.emplace(node.run_dir); });
    if (probe) probe_info["name"] = probe->name();
  }
  probe_info = distributed::broadcast_object(world, probe_info, 0, "shared run directory");
  throw_first_problem(nlohmann::json::array({probe_info}));
  const auto timeout = node.must_share ? kRequiredProbeTimeout : kProbeTimeout;
  const nlohmann::json own = {{"node", node.ranks.node_rank},
                              {"host", own_host_name()},
                              {"sees", can_see(node.run_dir, probe_info["name"], timeout)},
                              {"logs", node.logs}};
  const auto replies = distributed::all_gather_object(world, own, "shared run directory");
  if (node.must_share) verify_shared(replies, node.run_dir);
  tracking::Forwarding forwarding;
  std::set<int> separate_nodes;
  for (const auto& reply : replies) {
    if (reply["sees"].get<bool>()) continue;
    separate_nodes.insert(reply["node"].get<int>());
    forwarding.num_logs += reply["logs"].get<bool>() ? 1 : 0;
  }
  if (separate_nodes.empty()) return {};

  nlohmann::json endpoint;
  if (is_first) endpoint = listen_for_logs(node, forwarding);
  endpoint = distributed::broadcast_object(world, endpoint, 0, "forwarding of logs");
  throw_first_problem(nlohmann::json::array({endpoint}));
  const bool is_separate = separate_nodes.contains(node.ranks.node_rank);
  const auto problem = error_of([&] {
    if (is_separate && node.ranks.local_rank == 0) node.make_run_dir();
  });
  throw_first_problem(distributed::all_gather_object(world, nlohmann::json{{"problem", problem}},
                                                     "run directories"));
  forwarding.token = endpoint["token"];
  if (is_first) forwarding.from_nodes.assign(separate_nodes.begin(), separate_nodes.end());
  if (is_separate) forwarding.to = endpoint["to"];
  return forwarding;
}

}  // namespace lockstep::trainer
