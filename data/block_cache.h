// Pieces of large data that several threads read from, such as row groups or files: each is loaded
// once, and kept while it is in use.
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

// Invariant: there are never more blocks than were asked to be kept, or than threads have been
// inside use() at once, if that is more: with nothing to keep, one worker holds one block. Beyond
// that, what was used longest ago goes. A thread that wants a block which another loads helps it.
//
// Thread: safe to use from several threads at once.
template <class T>
class BlockCache {
 public:
  // `work`: for pieces of the loading that threads which want the block may do.
  using Load = std::function<T(size_t block, SharedWork& work)>;
  explicit BlockCache(Load load) : load_(std::move(load)) {}

  // Calls `read` with block `number`. `keep`: blocks that the caller uses in turns. Throws what
  // loading it threw; the next call tries again, but for Config: what is damaged stays damaged.
  template <class Read>
  void use(size_t number, int64_t keep, const Read& read) {
    std::unique_lock lock(mutex_);
    most_inside_ = std::max(most_inside_, ++inside_);
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

  // What has happened so far: blocks loaded, and the most that were there at once.
  int64_t loads() const {
    const std::lock_guard lock(mutex_);
    return loads_;
  }
  int64_t most_blocks() const {
    const std::lock_guard lock(mutex_);
    return most_blocks_;
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
      if (const auto error = damaged_.find(number); error != damaged_.end()) throw error->second;
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
    most_blocks_ = std::max(most_blocks_, static_cast<int64_t>(blocks_.size()));
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
      if (error.kind() == ErrorKind::Config) damaged_.emplace(number, error);
      throw;
    }
    succeeded = true;
    return block;
  }

  // Drops what nobody uses, so that one more block is still within the limit.
  void make_room() {
    while (static_cast<int64_t>(blocks_.size()) >= std::max(most_inside_, keep_)) {
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
  std::map<size_t, Error> damaged_;  // what loading them threw
  int64_t inside_ = 0, most_inside_ = 0, keep_ = 0, loads_ = 0, most_blocks_ = 0;
  uint64_t uses_ = 0;
};

}  // namespace lockstep::data
