// Reads ranges of objects, and their versions. A request that takes much longer than others is sent a second time, and the
// first answer counts ("hedged requests": Dean and Barroso, The Tail at Scale, 2013). Chooses how large
// ranges should be.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "core/system/mutex.h"
#include "formats/store/object_store.h"
#include "formats/store/page_allocator.h"

namespace lockstep::formats {

// Thread: safe to use from several threads concurrently. Stores must outlive it.
class HedgedReads {
 public:
  explicit HedgedReads(bool is_on) : is_on_(is_on) {}
  // Waits for requests whose answers are not needed any more; a timeout of the store ends them.
  ~HedgedReads();
  HedgedReads(const HedgedReads&) = delete;
  HedgedReads& operator=(const HedgedReads&) = delete;

  // One attempt: throws what ObjectStore::read() throws, if all of its requests fail.
  PageBytes read(ObjectStore& store, const ObjectInfo& object, int64_t offset, int64_t size);
  // The same, of ObjectStore::info().
  ObjectInfo info(ObjectStore& store, const std::string& key);

  // Requests that were sent a second time: of requests of similar sizes at most one in kReadsPerHedge,
  // and one more.
  int64_t num_hedged() const { return hedged_; }
  static constexpr int64_t kReadsPerHedge = 20;

  // How many bytes to read at a time, by how long the last reads took: enough that the latency does not
  // matter, and not more, so that objects arrive one after the other, and little is in memory.
  int64_t piece_bytes() const { return piece_bytes_; }
  static constexpr int64_t kMinPiece = int64_t{1} << 20, kMaxPiece = int64_t{8} << 20;
  // What follows pieces of `piece` bytes when a read of `size` has taken this time.
  static int64_t next_piece(int64_t piece, int64_t size, std::chrono::duration<double> taken,
                            std::chrono::duration<double> latency);

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kTimes = 100, kMinTimes = 16;

  // Of reads whose sizes have the same number of bits; of a version, 0.
  struct SizeClass {
    std::array<Clock::duration, kTimes> times;  // of the last reads
    int64_t reads = 0, hedged = 0;
  };
  template <class T>
  struct Call;
  struct Request {
    std::jthread thread;
    bool has_ended = false;
  };

  std::optional<Clock::duration> patience(int64_t size);
  bool may_hedge(int64_t size);
  void note(int64_t size, Clock::duration taken);
  bool start_thread(std::function<void()> request);
  template <class T>
  void send(const std::shared_ptr<Call<T>>& call, const std::function<T()>& request);
  template <class T>
  static T answer(Call<T>& call, const Clock::duration* patience, bool& is_late);
  template <class T>
  T first_answer(int64_t size, const std::function<T()>& request);

  const bool is_on_;
  std::atomic<int64_t> hedged_ = 0;
  std::atomic<int64_t> piece_bytes_ = 2 * kMinPiece;
  Mutex mutex_;
  std::map<int, SizeClass> classes_ GUARDED_BY(mutex_);
  Clock::duration latency_ GUARDED_BY(mutex_) = Clock::duration::max();  // the least
  std::list<Request> requests_ GUARDED_BY(mutex_);
};

}  // namespace lockstep::formats
