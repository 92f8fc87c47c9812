#include "data/block_cache.h"

#include <algorithm>

namespace lockstep {

void BlockCache::use(size_t number, const std::function<void(const EncodedRows&)>& read) {
  std::unique_lock lock(mutex_);
  most_inside_ = std::max(most_inside_, ++inside_);
  // Leaves in any case, also when loading or reading throws.
  std::shared_ptr<Block> block;
  const auto leave = [&](void*) {
    if (!lock.owns_lock()) lock.lock();
    if (block) --block->users;
    --inside_;
  };
  const std::unique_ptr<void, decltype(leave)> inside(this, leave);
  block = enter(number, lock);
  lock.unlock();
  read(block->rows);
}

// The block, loaded and with this thread among its users.
std::shared_ptr<BlockCache::Block> BlockCache::enter(size_t number,
                                                     std::unique_lock<std::mutex>& lock) {
  for (;;) {
    const auto known = blocks_.find(number);
    if (known == blocks_.end()) break;
    const auto block = known->second;
    if (!block->loading) {
      ++block->users;
      return block;
    }
    // Not timed: whoever loads it ends, by an error if need be.
    loaded_.wait(lock, [&] { return !block->loading; });
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
    loaded_.notify_all();
  };
  const std::unique_ptr<void, decltype(finish)> loading(this, finish);
  block->rows = load_(number);
  succeeded = true;
  return block;
}

// Drops what nobody uses, so that one more block is still within the number of threads.
void BlockCache::make_room() {
  for (auto at = blocks_.begin();
       at != blocks_.end() && static_cast<int64_t>(blocks_.size()) >= most_inside_;)
    at = at->second->users == 0 && !at->second->loading ? blocks_.erase(at) : std::next(at);
}

int64_t BlockCache::loads() const {
  const std::lock_guard lock(mutex_);
  return loads_;
}

int64_t BlockCache::most_blocks() const {
  const std::lock_guard lock(mutex_);
  return most_blocks_;
}

}  // namespace lockstep
