#include "distributed/shm/round_barrier.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "core/control_group.h"

namespace lockstep::distributed::shm {
namespace {

// About the cost of a sleep and a wake-up: spinning for that long costs at most twice the optimum.
constexpr std::chrono::microseconds kMaxSpin{100};
constexpr std::chrono::milliseconds kMaxSleep{20};
constexpr int kSpinsPerClockRead = 64;
constexpr unsigned kWaitsPerTrial = 16;

std::vector<pid_t> pids_of(const RankTable& table) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < table.num_ranks; ++rank)
    pids.push_back(table.states[rank].pid.load(std::memory_order_acquire));
  return pids;
}

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

void futex(std::atomic<uint32_t>& word, int operation, uint32_t value, const timespec* timeout) {
  ::syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word), operation, value, timeout, nullptr, 0);
}

// Spinning while another rank waits for a core, or for CPU time that the control group grants, delays it.
bool has_core_per_rank(const RankTable& table) {
  const auto limit = cpu_limit();
  return count_usable_cores(pids_of(table)) >= table.num_ranks &&
         (!limit || *limit >= table.num_ranks);
}

}  // namespace

RoundBarrier::RoundBarrier(const RankTable& table)
    : table_(table),
      peers_(pids_of(table)),
      max_spin_budget_(has_core_per_rank(table) ? kMaxSpin : std::chrono::microseconds(0)),
      spin_budget_(max_spin_budget_) {}

RoundBarrier::~RoundBarrier() {
  auto& own = state(table_.rank);
  own.has_left.store(1);
  futex(own.arrived, FUTEX_WAKE, INT32_MAX, nullptr);
}

bool RoundBarrier::has_arrived(int rank) const {
  return static_cast<int32_t>(state(rank).arrived.load(std::memory_order_acquire) - round_) >= 0;
}

bool RoundBarrier::arrive_and_wait(const Call& call, Clock::time_point deadline) {
  ++round_;
  auto& own = state(table_.rank);
  own.calls[round_ % 2] = call;
  own.arrived.store(round_);  // sequentially consistent, as is sleepers: see sleep_until_changed
  if (own.sleepers.load() > 0) futex(own.arrived, FUTEX_WAKE, INT32_MAX, nullptr);
  for (int rank = 0; rank < table_.num_ranks; ++rank)
    if (rank != table_.rank) wait_for(rank, deadline);
  return check_calls(call);
}

// Returns whether the rank arrived within the spin budget.
bool RoundBarrier::spin_until_arrived(int rank) {
  const auto begin = Clock::now();
  const auto budget = num_waits_++ % kWaitsPerTrial == 0 ? max_spin_budget_ : spin_budget_;
  do {
    for (int i = 0; i < kSpinsPerClockRead; ++i) {
      if (has_arrived(rank)) {
        spin_budget_ = std::max(spin_budget_, budget);
        return true;
      }
      relax();
    }
  } while (Clock::now() - begin < budget);
  spin_budget_ /= 2;
  return false;
}

void RoundBarrier::wait_for(int rank, Clock::time_point deadline) {
  if (has_arrived(rank) || spin_until_arrived(rank)) return;
  auto& awaited = state(rank);
  while (!has_arrived(rank)) {
    sleep_until_changed(awaited, awaited.arrived.load(), deadline);
    if (!has_arrived(rank)) check_peers(deadline);
  }
}

// No lost wake-up: either the arriving rank sees the sleeper, or the sleeper sees the arrival.
void RoundBarrier::sleep_until_changed(RankState& state, uint32_t seen,
                                       Clock::time_point deadline) {
  state.sleepers.fetch_add(1);
  const auto left = std::clamp<std::chrono::nanoseconds>(deadline - Clock::now(),
                                                         std::chrono::nanoseconds(0), kMaxSleep);
  const timespec timeout{.tv_sec = 0, .tv_nsec = static_cast<long>(left.count())};
  const bool arrived = static_cast<int32_t>(state.arrived.load() - round_) >= 0;
  if (!arrived && state.has_left.load() == 0) futex(state.arrived, FUTEX_WAIT, seen, &timeout);
  state.sleepers.fetch_sub(1);
}

void RoundBarrier::check_peers(Clock::time_point deadline) const {
  for (int rank = 0; rank < table_.num_ranks; ++rank) {
    if (rank == table_.rank || has_arrived(rank)) continue;
    const bool ended = peers_.has_ended(rank);
    const bool left = state(rank).has_left.load() != 0;
    if ((!ended && !left) || has_arrived(rank)) continue;  // it may have arrived before it exited
    throw PeerLost(ended ? fmt::format("rank {} (process {}) is gone", rank, peers_.pid(rank))
                         : fmt::format("rank {} has left the group", rank));
  }
  if (Clock::now() < deadline) return;
  for (int rank = 0; rank < table_.num_ranks; ++rank)
    if (!has_arrived(rank)) throw PeerLost(fmt::format("Timed out waiting for rank {}", rank));
}

bool RoundBarrier::check_calls(const Call& call) const {
  bool same_address = call.symmetric_address != 0;
  for (int rank = 0; rank < table_.num_ranks; ++rank) {
    const auto& other = state(rank).calls[round_ % 2];
    same_address = same_address && other.symmetric_address == call.symmetric_address;
    if (other.matches(call)) continue;
    throw PeerLost(fmt::format("collective mismatch: rank {} called {}, rank {} called {}",
                               table_.rank, describe(call), rank, describe(other)));
  }
  return same_address;
}

}  // namespace lockstep::distributed::shm
