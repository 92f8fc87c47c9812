#include "lockstep/world.h"

#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "core/system/local_address.h"
#include "distributed/backends/backends.h"
#include "distributed/backends/group_sockets.h"
#include "distributed/backends/own_address.h"
#include "distributed/backends/pending_operations.h"
#include "distributed/backends/process_groups.h"
#include "distributed/backends/quiet_setup.h"
#include "distributed/collectives.h"
#include "distributed/cuda/cuda.h"
#include "distributed/fence.h"
#include "lockstep/error.h"

namespace lockstep {
namespace {

constexpr std::chrono::milliseconds kMaxRendezvous =
    std::chrono::minutes(5);  // torchrun's TCPStore default

// From this call of interrupt() on, operations of Gloo are given up. Not after a time, during which the
// process might have been stopped.
constexpr int kGivingUpCall = 20;
// How long groups that were interrupted may take to be closed. Then this is left to another thread.
constexpr std::chrono::seconds kMaxClosing{1};

void check_ranks(const WorldOptions& options) {
  if (options.world_size < 1 || options.rank < 0 || options.rank >= options.world_size)
    throw config_error(
        fmt::format("rank {} does not exist in a world of {}", options.rank, options.world_size));
  if (options.local_rank < 0 || options.local_rank >= options.local_world_size)
    throw config_error(fmt::format("local rank {} does not exist among {} on its node",
                                   options.local_rank, options.local_world_size));
}

at::Device choose_device(const WorldOptions& options) {
  if (!selects_gpu(options.device)) return at::kCPU;
  distributed::use_gpu(options.local_rank);
  return {at::kCUDA, static_cast<c10::DeviceIndex>(options.local_rank)};
}

void check_backend(const WorldOptions& options, const at::Device& device) {
  const auto backend = options.backend;
  if (backend != BackendChoice::Auto && (backend == BackendChoice::Nccl) != device.is_cuda())
    throw config_error(
        fmt::format("distributed.backend '{}' does not work on device '{}'; use {} or 'auto'",
                    name_of(backend), device.is_cuda() ? "cuda" : "cpu",
                    device.is_cuda() ? "'nccl'" : "'shm', 'gloo', 'hierarchical'"));
}

// Whether LibTorch's message says that the port is in use.
bool is_about_port(const std::string& text) {
  return text.find("EADDRINUSE") != std::string::npos ||
         text.find("ddress already in use") != std::string::npos;
}

// Why `host` cannot be reached, or empty if it can be.
std::string why_unreachable(const std::string& host) {
  if (!numeric_address_of(host)) return fmt::format(": the name '{}' cannot be resolved", host);
  if (!local_address_for(host)) return fmt::format(": this machine has no route to {}", host);
  return "";
}

using Operations = std::shared_ptr<distributed::PendingOperations>;

c10::intrusive_ptr<c10d::Store> open_store(const WorldOptions& options,
                                           const Operations& operations, const TcpRendezvous& tcp) {
  c10d::TCPStoreOptions store;
  store.port = tcp.port;
  store.isServer = tcp.serve && options.rank == 0;
  store.numWorkers = static_cast<size_t>(options.world_size);
  store.waitWorkers = false;  // creating the groups waits for every rank anyway
  store.timeout = std::min(options.timeout, kMaxRendezvous);
  if (store.isServer && tcp.listen_fd) store.masterListenFd = *tcp.listen_fd;
  const auto connect = [host = tcp.host, store] {
    return c10::make_intrusive<c10d::TCPStore>(host, store);
  };
  try {
    if (!options.interruptible || store.isServer) return connect();
    return distributed::PendingOperations::connect(operations, connect, store.timeout);
  } catch (const std::exception& error) {
    auto cause = message_of(error);
    const bool is_port = is_about_port(cause);
    // On a socket that listens already, rank 0 fails if others are lost while it connects.
    if (store.isServer && (is_port || !tcp.listen_fd)) {
      if (is_port) cause = fmt::format("is it in use? ({})", cause);
      throw environment_error(
          fmt::format("rank 0 cannot serve the rendezvous on port {}: {}", tcp.port, cause));
    }
    throw PeerError(fmt::format("rank {} cannot reach the rendezvous at {}:{} within {} s{}",
                                options.rank, tcp.host, tcp.port, store.timeout.count() / 1000,
                                store.isServer ? ": " + cause : why_unreachable(tcp.host)));
  }
}

c10::intrusive_ptr<c10d::Store> open_store(const WorldOptions& options, const Operations&,
                                           const FileRendezvous& file) {
  auto store = distributed::make_file_store(file.path, options.world_size);
  store->setTimeout(std::min(options.timeout, kMaxRendezvous));
  return store;
}

std::string gloo_address(c10d::Store& store, const WorldOptions& options) {
  if (options.local_world_size == options.world_size) return "127.0.0.1";
  const auto* tcp = std::get_if<TcpRendezvous>(&options.rendezvous);
  return distributed::own_address(store, {.master = tcp ? tcp->host : own_host_name(),
                                          .world_size = options.world_size,
                                          .timeout = options.timeout});
}

distributed::HierarchicalOptions hierarchical_options(c10d::Store& store,
                                                      const WorldOptions& options) {
  return {.rank = options.rank,
          .world_size = options.world_size,
          .timeout = options.timeout,
          .address = gloo_address(store, options),
          .host = options.host.value_or(distributed::shm::host_identity())};
}

struct ChosenBackend {
  BackendChoice choice;
  c10::intrusive_ptr<c10d::Backend> backend;
};

// The backend for CPU tensors: shared memory if all ranks share it, else Gloo.
ChosenBackend make_cpu_backend(const c10::intrusive_ptr<c10d::Store>& store,
                               const WorldOptions& options, distributed::ProcessGroups& groups,
                               const Operations& operations) {
  if (options.backend == BackendChoice::Hierarchical)
    return {BackendChoice::Hierarchical,
            distributed::make_hierarchical_backend(store, hierarchical_options(*store, options))};
  if (options.backend != BackendChoice::Gloo) {
    auto host =
        distributed::make_shm_backend(store, options.rank, options.world_size, options.timeout);
    groups.shared = host.backend;
    if (host.backend) return {BackendChoice::Shm, host.backend};
    if (options.backend == BackendChoice::Shm)
      throw config_error(fmt::format(
          "distributed.backend 'shm' needs all ranks on one host: {}; use 'gloo' or 'auto'",
          host.reason));
  }
  const auto connect = [store, rank = options.rank, world_size = options.world_size,
                        timeout = options.timeout, address = gloo_address(*store, options)] {
    return distributed::make_gloo_backend(store, rank, world_size, timeout, address);
  };
  if (!options.interruptible) return {BackendChoice::Gloo, connect()};
  auto gloo = distributed::PendingOperations::connect(operations, connect, options.timeout);
  gloo = c10::make_intrusive<distributed::InterruptibleBackend>(std::move(gloo), operations);
  return {BackendChoice::Gloo, std::move(gloo)};
}

c10::intrusive_ptr<c10d::ProcessGroup> make_group(const c10::intrusive_ptr<c10d::Store>& store,
                                                  const WorldOptions& options,
                                                  const std::string& name,
                                                  const ChosenBackend& made) {
  using Type = c10d::ProcessGroup::BackendType;
  const auto type = made.choice == BackendChoice::Nccl   ? Type::NCCL
                    : made.choice == BackendChoice::Gloo ? Type::GLOO
                                                         : Type::CUSTOM;
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, options.rank, options.world_size);
  group->setBackend(type == Type::NCCL ? at::kCUDA : at::kCPU, type, made.backend);
  group->setDefaultBackend(type);
  group->setGroupName(name);
  return group;
}

// Creates the process groups and returns the device group's backend.
BackendChoice make_groups(distributed::ProcessGroups& groups, const WorldOptions& options,
                          const at::Device& device, const Operations& operations) {
  const auto store_of = [&](const std::string& name) {
    return c10::make_intrusive<c10d::PrefixStore>(name, groups.store);
  };
  const auto control_store = store_of("control");
  const auto control = make_cpu_backend(control_store, options, groups, operations);
  groups.control = make_group(control_store, options, "control", control);
  groups.device = groups.control;
  if (device.is_cpu()) return control.choice;
  const auto store = store_of("device");
  groups.device = make_group(
      store, options, "device",
      {BackendChoice::Nccl,
       distributed::make_nccl_backend(store, options.rank, options.world_size, options.timeout)});
  return BackendChoice::Nccl;
}

}  // namespace

bool selects_gpu(DeviceChoice device) {
  return device == DeviceChoice::Cuda ||
         (device == DeviceChoice::Auto && distributed::machine_has_gpu());
}

World::World(const WorldOptions& options)
    : own_progress_(options.progress ? nullptr : std::make_unique<ProgressPage>()),
      options_(options),
      device_(choose_device(options)),
      sockets_(std::make_unique<distributed::GroupSockets>()),
      operations_(std::make_shared<distributed::PendingOperations>()),
      groups_(std::make_unique<distributed::ProcessGroups>()) {
  if (own_progress_) options_.progress = own_progress_.get();
  check_ranks(options);
  check_backend(options, device_);
}

std::unique_ptr<World> World::connect(const WorldOptions& options) {
  std::unique_ptr<World> world(new World(options));
  if (world->is_distributed()) world->open_groups();
  return world;
}

void World::open_groups() {
  const distributed::QuietSetup quiet;
  sockets_->begin();
  groups_->base_store = std::visit(
      [&](const auto& how) { return open_store(options_, operations_, how); }, options_.rendezvous);
  const auto* tcp = std::get_if<TcpRendezvous>(&options_.rendezvous);
  groups_->store = c10::make_intrusive<c10d::PrefixStore>("lockstep/" + (tcp ? tcp->prefix : ""),
                                                          groups_->base_store);
  distributed::fenced(*this, "process group setup",
                      [&] { backend_ = make_groups(*groups_, options_, device_, operations_); });
  sockets_->end();
}

void World::interrupt() {
  if (sockets_->shut_down() >= kGivingUpCall) operations_->give_up();
}

World::~World() { close_groups(); }

// Note [Operations that Gloo forgets]: after interrupt(), the destructors may wait for a long time.
void World::close_groups() {
  auto groups = std::exchange(groups_, std::make_unique<distributed::ProcessGroups>());
  if (!options_.interruptible || sockets_->num_shut_downs() == 0) return;
  std::promise<void> closed;
  const auto is_closed = closed.get_future();
  std::thread([groups = std::move(groups), closed = std::move(closed)]() mutable {
    groups.reset();
    closed.set_value();
  }).detach();
  is_closed.wait_for(kMaxClosing);
}

World& World::host() {
  if (backend_ != BackendChoice::Hierarchical) return *this;
  if (!groups_->host)
    groups_->host =
        distributed::fenced(*this, "process groups of hosts", [&] { return open_host(); });
  return *groups_->host;
}

std::unique_ptr<World> World::open_host() {
  const auto store = c10::make_intrusive<c10d::PrefixStore>("hosts", groups_->store);
  auto made = distributed::make_host_groups(store, hierarchical_options(*store, options_));
  auto options = options_;
  options.rank = options.local_rank = made.local->getRank();
  options.world_size = options.local_world_size = made.local->getSize();
  options.backend = BackendChoice::Shm;
  std::unique_ptr<World> host(new World(options));
  host->backend_ = BackendChoice::Shm;
  auto& groups = *host->groups_;
  groups.store = store;
  groups.shared = made.local;
  groups.control = make_group(store, options, "host", {BackendChoice::Shm, made.local});
  groups.device = groups.control;
  groups.is_of_host = true;
  groups_->peers = made.peers;
  return host;
}

void World::set_timeout(std::chrono::milliseconds timeout) {
  options_.timeout = timeout;
  if (!is_distributed()) return;
  if (groups_->host) groups_->host->set_timeout(timeout);
  if (groups_->peers) groups_->peers->setTimeout(timeout);
  groups_->control->setTimeout(timeout);
  if (groups_->device != groups_->control) groups_->device->setTimeout(timeout);
}

void World::finish() {
  if (is_distributed() && groups_->control) distributed::barrier(*this, "finish");
  groups_ = std::make_unique<distributed::ProcessGroups>();
}

void World::regroup(const WorldOptions& options) {
  close_groups();
  sockets_->forget();
  operations_->begin();
  backend_ = BackendChoice::Auto;
  auto* const progress = options_.progress;
  options_ = options;
  options_.progress = progress;
  check_ranks(options_);
  if (is_distributed()) open_groups();
}

std::optional<std::string> World::get_value(const std::string& key) {
  if (!is_distributed() || !groups_->base_store->check({key})) return std::nullopt;
  return groups_->base_store->get_to_str(key);
}

void World::set_value(const std::string& key, const std::string& value) {
  if (is_distributed()) groups_->base_store->set(key, value);
}

}  // namespace lockstep
