// A mutex with clang thread-safety annotations: `make lint` rejects accesses without the lock.
//
//   Mutex mutex_;
//   std::deque<Job> jobs_ GUARDED_BY(mutex_);
//   void pop_job() REQUIRES(mutex_);  // the caller holds the lock
//
// Predicates of condition variables need an annotation, too, as they run with the lock held:
//
//   MutexLock lock(mutex_);
//   changed_.wait(lock.native(), [this]() REQUIRES(mutex_) { return !jobs_.empty(); });
#pragma once

#include <mutex>

#ifdef __clang__
#define LOCKSTEP_THREAD_SAFETY(x) __attribute__((x))
#else
#define LOCKSTEP_THREAD_SAFETY(x)
#endif
#define GUARDED_BY(mutex) LOCKSTEP_THREAD_SAFETY(guarded_by(mutex))
#define REQUIRES(mutex) LOCKSTEP_THREAD_SAFETY(requires_capability(mutex))

namespace lockstep {

class LOCKSTEP_THREAD_SAFETY(capability("mutex")) Mutex {
 public:
  void lock() LOCKSTEP_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCKSTEP_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for its lifetime, except between unlock() and lock().
class LOCKSTEP_THREAD_SAFETY(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) LOCKSTEP_THREAD_SAFETY(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~MutexLock() LOCKSTEP_THREAD_SAFETY(release_capability()) {}
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

  void lock() LOCKSTEP_THREAD_SAFETY(acquire_capability()) { lock_.lock(); }
  void unlock() LOCKSTEP_THREAD_SAFETY(release_capability()) { lock_.unlock(); }
  // For std::condition_variable::wait().
  std::unique_lock<std::mutex>& native() { return lock_; }

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace lockstep
