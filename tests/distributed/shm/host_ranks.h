// Groups of several ranks in one process: one thread each, or one forked process each.
#pragma once

#include <condition_variable>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "distributed/shm/group.h"
#include "distributed/shm/host_discovery.h"
#include "lockstep/error.h"
#include "tests/distributed/run_threads.h"

namespace lockstep::distributed::shm {

// A key-value store for threads.
class InMemoryStore final : public KeyValueStore {
 public:
  void set(const std::string& key, const std::string& value) override {
    const std::lock_guard lock(mutex_);
    values_[key] = value;
    changed_.notify_all();
  }
  std::string get(const std::string& key) override {
    std::unique_lock lock(mutex_);
    if (!changed_.wait_for(lock, std::chrono::seconds(20), [&] { return values_.contains(key); }))
      throw environment_error("timed out waiting for key " + key);
    return values_[key];
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::map<std::string, std::string> values_;
};

inline Clock::time_point within(std::chrono::milliseconds time) { return Clock::now() + time; }
inline Clock::time_point soon() { return within(std::chrono::seconds(20)); }

// Runs `body(group)` on the ranks of a new group and rethrows the first exception.
template <class Body>
void run_group(int num_ranks, const Body& body) {
  InMemoryStore store;
  const auto errors = run_threads(num_ranks, [&](int rank) {
    const auto found = discover_host_group(store, {.rank = rank, .num_ranks = num_ranks});
    check(found.group != nullptr, "threads of one process cannot share memory");
    body(*found.group);
  });
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

inline std::string text_of(const std::exception_ptr& error) {
  if (!error) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::exception& thrown) {
    return thrown.what();
  }
}

}  // namespace lockstep::distributed::shm
