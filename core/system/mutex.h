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
#include <shared_mutex>

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

// Held by several readers or by one writer.
class LOCKSTEP_THREAD_SAFETY(capability("mutex")) SharedMutex {
 public:
  void lock() LOCKSTEP_THREAD_SAFETY(acquire_capability()) { mutex_.lock(); }
  void unlock() LOCKSTEP_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  void lock_shared() LOCKSTEP_THREAD_SAFETY(acquire_shared_capability()) { mutex_.lock_shared(); }
  void unlock_shared() LOCKSTEP_THREAD_SAFETY(release_shared_capability()) {
    mutex_.unlock_shared();
  }

 private:
  std::shared_mutex mutex_;
};

class LOCKSTEP_THREAD_SAFETY(scoped_lockable) WriterLock {
 public:
  explicit WriterLock(SharedMutex& mutex) LOCKSTEP_THREAD_SAFETY(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock();
  }
  ~WriterLock() LOCKSTEP_THREAD_SAFETY(release_capability()) { mutex_.unlock(); }
  WriterLock(const WriterLock&) = delete;
  WriterLock& operator=(const WriterLock&) = delete;

 private:
  SharedMutex& mutex_;
};

class LOCKSTEP_THREAD_SAFETY(scoped_lockable) ReaderLock {
 public:
  explicit ReaderLock(SharedMutex& mutex) LOCKSTEP_THREAD_SAFETY(acquire_shared_capability(mutex))
      : mutex_(mutex) {
    mutex_.lock_shared();
  }
  ~ReaderLock() LOCKSTEP_THREAD_SAFETY(release_capability()) { mutex_.unlock_shared(); }
  ReaderLock(const ReaderLock&) = delete;
  ReaderLock& operator=(const ReaderLock&) = delete;

 private:
  SharedMutex& mutex_;
};

}  // namespace lockstep
