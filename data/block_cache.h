// A cache of blocks of large data (row groups, files) for several threads: each block is loaded
// once and kept while it is in use.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

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

  // Calls `read` with block `number`. `keep`: blocks that the caller uses in turn. Throws what
  // loading threw; the next call retries, except after Config: corrupt data stays corrupt.
  template <class Read>
  void use(size_t number, int64_t keep, const Read& read) {
    std::unique_lock lock(mutex_);
    max_inside_ = std::max(max_inside_, ++inside_);
    keep_ = std::max(keep_, keep);
    // Leaves in any case, also when loading or reading throws.
    std::shared_ptr<Block> block;
    const auto leave = [&](void*) {
      if (!lock.owns_lock()) lock.lock();
      if (block) --block->users;
      --inside_;
    };
    const std::unique_ptr<void, decltype(leave)> inside(this, leave);
    block = enter(number, lock);
    block->used_at = ++uses_;
    lock.unlock();
    read(static_cast<const T&>(*block->content));
  }

  // Statistics: blocks loaded, and the maximum number of blocks in memory.
  int64_t loads() const {
    const std::lock_guard lock(mutex_);
    return loads_;
  }
  int64_t max_blocks() const {
    const std::lock_guard lock(mutex_);
    return max_blocks_;
  }

 private:
  struct Block {
    int64_t users = 0;
    bool loading = true;
    SharedWork work;
    uint64_t used_at = 0;
    std::unique_ptr<T> content;
  };

  // The block, loaded and with this thread among its users.
  std::shared_ptr<Block> enter(size_t number, std::unique_lock<std::mutex>& lock) {
    for (;;) {
      if (const auto error = corrupt_.find(number); error != corrupt_.end()) throw error->second;
      const auto known = blocks_.find(number);
      if (known == blocks_.end()) break;
      const auto block = known->second;
      if (!block->loading) {
        ++block->users;
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
    bool succeeded = false;
    const auto finish = [&](void*) {
      lock.lock();
      block->loading = false;
      if (!succeeded) blocks_.erase(number);
      block->work.close();
    };
    const std::unique_ptr<void, decltype(finish)> loading(this, finish);
    try {
      block->content = std::make_unique<T>(load_(number, block->work));
    } catch (const Error& error) {
      const std::lock_guard remembering(mutex_);
      if (error.kind() == ErrorKind::Config) corrupt_.emplace(number, error);
      throw;
    }
    succeeded = true;
    return block;
  }

  // Evicts unused blocks to make room for one more.
  void make_room() {
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
  mutable std::mutex mutex_;  // guards what follows
  std::map<size_t, std::shared_ptr<Block>> blocks_;
  std::map<size_t, Error> corrupt_;  // what loading them threw
  int64_t inside_ = 0, max_inside_ = 0, keep_ = 0, loads_ = 0, max_blocks_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace lockstep::data
