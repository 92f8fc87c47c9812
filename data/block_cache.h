// Blocks of a file that several threads read from: each is loaded once, and kept while it is in
// use.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

#include "data/table_encoding.h"

namespace lockstep {

// Invariant: there are never more blocks than threads that have been inside use() at once, so one
// worker holds one block. A thread waits for another that loads the block it wants.
//
// Thread: safe to use from several threads at once.
class BlockCache {
 public:
  using Load = std::function<EncodedRows(size_t block)>;
  explicit BlockCache(Load load) : load_(std::move(load)) {}

  // Calls `read` with block `number`. Throws what loading it threw; the next call tries again.
  void use(size_t number, const std::function<void(const EncodedRows&)>& read);

  // What a pass has cost: blocks loaded, and the most that were there at once.
  int64_t loads() const;
  int64_t most_blocks() const;

 private:
  struct Block {
    int64_t users = 0;
    bool loading = true;
    EncodedRows rows;
  };
  std::shared_ptr<Block> enter(size_t number, std::unique_lock<std::mutex>& lock);
  void make_room();

  const Load load_;
  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable loaded_;
  std::map<size_t, std::shared_ptr<Block>> blocks_;
  int64_t inside_ = 0, most_inside_ = 0, loads_ = 0, most_blocks_ = 0;
};

}  // namespace lockstep
