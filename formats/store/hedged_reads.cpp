#include "formats/store/hedged_reads.h"

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <exception>
#include <system_error>
#include <utility>

namespace lockstep::formats {
namespace {

constexpr std::chrono::milliseconds kMinPatience{200};
constexpr std::chrono::seconds kFirstPatience{2};  // of sizes of which few reads are known
constexpr int kPatienceFactor = 2;                 // of the time in which 95 % of the reads end

// How long a read of a piece should take: a multiple of the latency, which connections spend without
// receiving. Of a link of 1 Gbit/s, 31 MB are then requested at a time.
constexpr std::chrono::milliseconds kPieceTime{250};
constexpr int kLatenciesOfPiece = 4;
constexpr int kReadsAveraged = 4;

int class_of(int64_t size) { return static_cast<int>(std::bit_width(static_cast<uint64_t>(size))); }

}  // namespace

// Of one or two requests for the same.
template <class T>
struct HedgedReads::Call {
  Mutex mutex;
  std::condition_variable_any changed;
  int requests GUARDED_BY(mutex) = 0;  // without an answer
  std::optional<T> answer GUARDED_BY(mutex);
  std::exception_ptr failure GUARDED_BY(mutex);  // the first one

  bool is_over() const REQUIRES(mutex) { return answer || requests == 0; }
};

HedgedReads::~HedgedReads() {
  std::list<Request> requests;
  const MutexLock lock(mutex_);
  requests.swap(requests_);
}

// How long to wait for the first answer; nullopt: forever.
std::optional<HedgedReads::Clock::duration> HedgedReads::patience(int64_t size) {
  if (!is_on_) return std::nullopt;
  const MutexLock lock(mutex_);
  const auto& known = classes_[class_of(size)];
  const auto count = std::min<size_t>(kTimes, static_cast<size_t>(known.reads));
  if (count < kMinTimes) return kFirstPatience;
  auto times = known.times;
  const auto slow = times.begin() + static_cast<std::ptrdiff_t>(count * 95 / 100);
  std::nth_element(times.begin(), slow, times.begin() + static_cast<std::ptrdiff_t>(count));
  return std::max<Clock::duration>(kMinPatience, kPatienceFactor * *slow);
}

bool HedgedReads::may_hedge(int64_t size) {
  const MutexLock lock(mutex_);
  auto& known = classes_[class_of(size)];
  if (known.hedged > known.reads / kReadsPerHedge) return false;
  ++known.hedged;
  return true;
}

void HedgedReads::note(int64_t size, Clock::duration taken) {
  const MutexLock lock(mutex_);
  auto& known = classes_[class_of(size)];
  known.times[static_cast<size_t>(known.reads++) % kTimes] = taken;
  if (size == 0) latency_ = std::min(latency_, taken);
  const bool is_known = latency_ != Clock::duration::max();
  piece_bytes_ =
      next_piece(piece_bytes_, size, taken, is_known ? latency_ : Clock::duration::zero());
}

int64_t HedgedReads::next_piece(int64_t piece, int64_t size, std::chrono::duration<double> taken,
                                std::chrono::duration<double> latency) {
  if (size < kMinPiece) return piece;
  const auto time =
      std::max<std::chrono::duration<double>>(kPieceTime, kLatenciesOfPiece * latency);
  const auto wanted = static_cast<double>(size) * std::min(time / taken, 1e3);
  const auto limited = std::clamp(static_cast<int64_t>(wanted), kMinPiece, kMaxPiece);
  const auto step = (limited - piece) / kReadsAveraged;
  return step == 0 ? limited : piece + step;
}

// False: the process cannot have more threads.
bool HedgedReads::start_thread(std::function<void()> request) {
  const MutexLock lock(mutex_);
  std::erase_if(requests_, [](const auto& one) { return one.has_ended; });
  auto& added = requests_.emplace_back();
  try {
    added.thread = std::jthread([this, &added, request = std::move(request)] {
      request();
      const MutexLock end(mutex_);
      added.has_ended = true;
    });
  } catch (const std::system_error&) {
    requests_.pop_back();
    return false;
  }
  return true;
}

// In a new thread, because a request cannot be canceled.
template <class T>
void HedgedReads::send(const std::shared_ptr<Call<T>>& call, const std::function<T()>& request) {
  {
    const MutexLock lock(call->mutex);
    ++call->requests;
  }
  const auto run = [call, request] {
    std::optional<T> answer;
    std::exception_ptr failure;
    try {
      answer = request();
    } catch (...) {
      failure = std::current_exception();
    }
    const MutexLock lock(call->mutex);
    --call->requests;
    if (failure && !call->failure) call->failure = failure;
    if (answer && !call->answer) call->answer = std::move(answer);
    call->changed.notify_all();
  };
  if (!start_thread(run)) run();
}

// Waits for an answer, for as long as `patience` says; then `is_late` is set.
template <class T>
T HedgedReads::answer(Call<T>& call, const Clock::duration* patience, bool& is_late) {
  MutexLock lock(call.mutex);
  const auto is_over = [&]() REQUIRES(call.mutex) { return call.is_over(); };
  is_late = patience && !call.changed.wait_for(lock.native(), *patience, is_over);
  if (is_late) return {};
  call.changed.wait(lock.native(), is_over);
  if (!call.answer) std::rethrow_exception(call.failure);
  return std::move(*call.answer);
}

// `size`: of the answer.
template <class T>
T HedgedReads::first_answer(int64_t size, const std::function<T()>& request) {
  const auto begin = Clock::now();
  const auto limit = patience(size);
  T found;
  if (limit) {
    const auto call = std::make_shared<Call<T>>();
    bool is_late = false;
    send(call, request);
    found = answer(*call, &*limit, is_late);
    if (is_late && may_hedge(size)) {
      ++hedged_;
      send(call, request);
    }
    if (is_late) found = answer(*call, nullptr, is_late);
  } else {
    found = request();
  }
  note(size, Clock::now() - begin);
  return found;
}

PageBytes HedgedReads::read(ObjectStore& store, const ObjectInfo& object, int64_t offset,
                            int64_t size) {
  return first_answer<PageBytes>(size, [&store, object, offset, size] {
    PageBytes bytes(static_cast<size_t>(size));
    store.read(object, offset, bytes);
    return bytes;
  });
}

ObjectInfo HedgedReads::info(ObjectStore& store, const std::string& key) {
  return first_answer<ObjectInfo>(0, [&store, key] { return store.info(key); });
}

}  // namespace lockstep::formats
