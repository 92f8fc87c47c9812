// A cache of blocks of large data (row groups, files) for several threads: each block is loaded
// once and kept while it is in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>

#include "core/system/mutex.h"
#include "core/system/shared_work.h"
#include "lockstep/error.h"

namespace lockstep::data {

// Invariant: the number of blocks is at most the largest `keep`, or the largest number of threads
// that were inside use() concurrently, whichever is larger. The least recently used block is
// evicted. A thread that needs a block that another one is loading helps to load it.
//
// Thread: any.
template <class T>
class BlockCache {
 public:
  // `work`: splits loading among the threads that wait for the block.
  using Load = std::function<T(size_t block, SharedWork& work)>;
  explicit BlockCache(Load load) : load_(std::move(load)) {}

  // Calls `read` with block `number`. `keep`: blocks that the caller uses alternately. Throws what
  // loading threw; the next call retries, except after Config: corrupt data stays corrupt.
  template <class Read>
  void use(size_t number, int64_t keep, const Read& read) {
    std::shared_ptr<Block> block;
    // Runs even if loading or reading throws.
    const auto leave = [&](void*) {
      const MutexLock lock(mutex_);
      if (block) --block->users;
      --inside_;
    };
    const std::unique_ptr<void, decltype(leave)> inside(this, leave);
    block = enter(number, keep);
    read(static_cast<const T&>(*block->content));
  }

  // Statistics: blocks loaded, and the maximum number of blocks in memory.
  int64_t loads() const {
    const MutexLock lock(mutex_);
    return loads_;
  }
  int64_t max_blocks() const {
    const MutexLock lock(mutex_);
    return max_blocks_;
  }

 private:
  struct Block {  // mutex_ guards all members except `work` and, while loading, `content`
    int64_t users = 0;
    bool loading = true;
    SharedWork work;
    uint64_t used_at = 0;
    std::unique_ptr<T> content;
  };

  // The block, loaded and with this thread among its users. Counts the thread as inside even if
  // loading throws.
  std::shared_ptr<Block> enter(size_t number, int64_t keep) {
    MutexLock lock(mutex_);
    max_inside_ = std::max(max_inside_, ++inside_);
    keep_ = std::max(keep_, keep);
    for (;;) {
      if (const auto error = corrupt_.find(number); error != corrupt_.end())
        std::rethrow_exception(error->second);
      const auto known = blocks_.find(number);
      if (known == blocks_.end()) break;
      const auto block = known->second;
      if (!block->loading) {
        ++block->users;
        block->used_at = ++uses_;
        return block;
      }
      lock.unlock();
      block->work.help();
      lock.lock();
    }
    make_room();
    const auto block = std::make_shared<Block>();
    blocks_[number] = block;
    block->users = 1;
    ++loads_;
    max_blocks_ = std::max(max_blocks_, static_cast<int64_t>(blocks_.size()));
    lock.unlock();
    load(number, block.get());
    return block;
  }

  // Called without the lock.
  void load(size_t number, Block* block) {
    bool succeeded = false;
    const auto finish = [&](void*) {
      const MutexLock lock(mutex_);
      block->loading = false;
      block->used_at = ++uses_;
      if (!succeeded) blocks_.erase(number);
      block->work.close();
    };
    const std::unique_ptr<void, decltype(finish)> loading(this, finish);
    try {
      block->content = std::make_unique<T>(load_(number, block->work));
    } catch (const Error& error) {
      const MutexLock lock(mutex_);
      if (error.kind() == ErrorKind::Config) corrupt_.emplace(number, std::current_exception());
      throw;
    }
    succeeded = true;
  }

  // Evicts unused blocks to make room for one more.
  void make_room() REQUIRES(mutex_) {
    while (static_cast<int64_t>(blocks_.size()) >= std::max(max_inside_, keep_)) {
      auto oldest = blocks_.end();
      for (auto at = blocks_.begin(); at != blocks_.end(); ++at) {
        const auto& block = *at->second;
        if (block.users > 0 || block.loading) continue;
        if (oldest == blocks_.end() || block.used_at < oldest->second->used_at) oldest = at;
      }
      if (oldest == blocks_.end()) return;
      blocks_.erase(oldest);
    }
  }

  const Load load_;
  mutable Mutex mutex_;
  std::map<size_t, std::shared_ptr<Block>> blocks_ GUARDED_BY(mutex_);
  std::map<size_t, std::exception_ptr> corrupt_ GUARDED_BY(mutex_);  // what loading them threw
  int64_t inside_ GUARDED_BY(mutex_) = 0, max_inside_ GUARDED_BY(mutex_) = 0;
  int64_t keep_ GUARDED_BY(mutex_) = 0, loads_ GUARDED_BY(mutex_) = 0;
  int64_t max_blocks_ GUARDED_BY(mutex_) = 0;
  uint64_t uses_ GUARDED_BY(mutex_) = 0;
};

}  // namespace lockstep::data
