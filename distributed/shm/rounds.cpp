#include "distributed/shm/rounds.h"

#include <fmt/format.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

namespace lockstep::distributed::shm {
namespace {

// About what a sleep and a wake cost: looking longer than that cannot pay by more than a factor of
// two.
constexpr std::chrono::microseconds kPatience{100};
constexpr std::chrono::milliseconds kMaxSleep{100};
constexpr int kSpinsPerClockRead = 64;
constexpr unsigned kWaitsPerTrial = 16;

std::vector<pid_t> pids_of(const RankSlots& place) {
  std::vector<pid_t> pids;
  for (int rank = 0; rank < place.num_ranks; ++rank)
    pids.push_back(place.lines[rank].pid.load(std::memory_order_acquire));
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

}  // namespace

Rounds::Rounds(const RankSlots& place)
    : place_(place),
      peers_(pids_of(place)),
      max_spin_budget_(count_usable_cores(pids_of(place)) >= place.num_ranks
                            ? kPatience
                            : std::chrono::microseconds(0)),
      spin_budget_(max_spin_budget_) {}

Rounds::~Rounds() {
  auto& own = line(place_.rank);
  own.has_left.store(1);
  futex(own.arrived, FUTEX_WAKE, INT32_MAX, nullptr);
}

bool Rounds::has_arrived(int rank) const {
  return static_cast<int32_t>(line(rank).arrived.load(std::memory_order_acquire) - round_) >= 0;
}

bool Rounds::meet(const Call& call, Clock::time_point deadline) {
  ++round_;
  auto& own = line(place_.rank);
  own.calls[round_ % 2] = call;
  own.arrived.store(round_);  // sequentially consistent, as is sleepers: see sleep_until_changed
  if (own.sleepers.load() > 0) futex(own.arrived, FUTEX_WAKE, INT32_MAX, nullptr);
  for (int rank = 0; rank < place_.num_ranks; ++rank)
    if (rank != place_.rank) wait_for(rank, deadline);
  return compare(call);
}

// Whether it came while this rank was looking.
bool Rounds::spin_until_arrived(int rank) {
  const auto begin = Clock::now();
  const auto patience = num_waits_++ % kWaitsPerTrial == 0 ? max_spin_budget_ : spin_budget_;
  do {
    for (int i = 0; i < kSpinsPerClockRead; ++i) {
      if (has_arrived(rank)) {
        spin_budget_ = std::max(spin_budget_, patience);
        return true;
      }
      relax();
    }
  } while (Clock::now() - begin < patience);
  spin_budget_ /= 2;
  return false;
}

void Rounds::wait_for(int rank, Clock::time_point deadline) {
  if (has_arrived(rank) || spin_until_arrived(rank)) return;
  auto& awaited = line(rank);
  while (!has_arrived(rank)) {
    sleep_until_changed(awaited, awaited.arrived.load(), deadline);
    if (!has_arrived(rank)) check_peers(deadline);
  }
}

// Either the one who comes sees the sleeper and wakes it, or the sleeper sees that it has come.
void Rounds::sleep_until_changed(RankLine& line, uint32_t seen, Clock::time_point deadline) {
  line.sleepers.fetch_add(1);
  const auto left = std::clamp<std::chrono::nanoseconds>(
      deadline - Clock::now(), std::chrono::nanoseconds(0), kMaxSleep);
  const timespec timeout{.tv_sec = 0, .tv_nsec = static_cast<long>(left.count())};
  const bool came = static_cast<int32_t>(line.arrived.load() - round_) >= 0;
  if (!came && line.has_left.load() == 0) futex(line.arrived, FUTEX_WAIT, seen, &timeout);
  line.sleepers.fetch_sub(1);
}

void Rounds::check_peers(Clock::time_point deadline) const {
  for (int rank = 0; rank < place_.num_ranks; ++rank) {
    if (rank == place_.rank || has_arrived(rank)) continue;
    const bool ended = peers_.has_ended(rank);
    const bool left = line(rank).has_left.load() != 0;
    if ((!ended && !left) || has_arrived(rank)) continue;  // it may have come before it ended
    throw PeerLost(ended ? fmt::format("rank {} (process {}) is gone", rank, peers_.pid(rank))
                         : fmt::format("rank {} has left the group", rank));
  }
  if (Clock::now() < deadline) return;
  for (int rank = 0; rank < place_.num_ranks; ++rank)
    if (!has_arrived(rank)) throw PeerLost(fmt::format("Timed out waiting for rank {}", rank));
}

bool Rounds::compare(const Call& call) const {
  bool at_one_place = call.place != 0;
  for (int rank = 0; rank < place_.num_ranks; ++rank) {
    const auto& other = line(rank).calls[round_ % 2];
    at_one_place = at_one_place && other.place == call.place;
    if (other.does_the_same(call)) continue;
    throw PeerLost(fmt::format("ranks do not do the same: rank {} calls {}, rank {} calls {}",
                               place_.rank, describe(call), rank, describe(other)));
  }
  return at_one_place;
}

}  // namespace lockstep::distributed::shm
