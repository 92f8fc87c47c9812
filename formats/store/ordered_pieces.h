// Runs work in pieces on several threads, in the order in which the results are needed. No LibTorch.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/system/mutex.h"

namespace lockstep::formats {

// Thread: safe to call from several threads concurrently.
class OrderedPieces {
 public:
  // Does the units of work from `begin` to `end`.
  using Piece = std::function<void(int64_t begin, int64_t end)>;

  struct Work {
    std::string name;
    int64_t count = 0;  // units of work
    int64_t order = 0;  // lower ones first
    // The units of the piece that begins next, at least 1. Empty: 1.
    std::function<int64_t()> piece_units = {};
    // The calling thread runs pieces too: at once if 0, else when none was run for this time.
    std::chrono::milliseconds idle{0};
  };

  // Starts threads when they are needed, at most `threads`.
  explicit OrderedPieces(int threads) : max_threads_(threads) {}
  // Requires that no run() is active.
  ~OrderedPieces() { stop_.request_stop(); }
  OrderedPieces(const OrderedPieces&) = delete;
  OrderedPieces& operator=(const OrderedPieces&) = delete;

  // Calls `piece` for all units from 0 to count, in order, and returns when all calls have ended. A rest of less
  // than half a piece belongs to the last one. If a call throws, no others begin, and its error is thrown.
  void run(Work work, const Piece& piece);

  // During its lifetime, the work of this name comes before all other.
  class First {
   public:
    First(OrderedPieces& pieces, std::string name);
    ~First();
    First(const First&) = delete;
    First& operator=(const First&) = delete;

   private:
    OrderedPieces& pieces_;
    const std::string name_;
  };

 private:
  struct Running {
    const Work work;
    const Piece& piece;
    int64_t next = 0, active = 0;
    std::exception_ptr failure = nullptr;
    bool has_more() const { return next < work.count; }
    bool has_ended() const { return !has_more() && active == 0; }
    // The units of the next piece.
    std::pair<int64_t, int64_t> claim();
  };

  void start_threads(int64_t pieces) REQUIRES(mutex_);
  void work_on(const std::stop_token& stop);
  Running* next_work() const REQUIRES(mutex_);
  void wait_while_others_run(const Running& running);
  void call(Running& running, std::pair<int64_t, int64_t> units);

  const int max_threads_;
  Mutex mutex_;
  std::condition_variable_any changed_, ended_;
  std::vector<Running*> all_ GUARDED_BY(mutex_);         // by their order
  std::multiset<std::string> first_ GUARDED_BY(mutex_);  // names
  std::stop_source stop_;
  std::vector<std::jthread> threads_ GUARDED_BY(mutex_);  // last: joined first
};

}  // namespace lockstep::formats
