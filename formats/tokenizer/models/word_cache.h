// The tokens of words that were encoded before. Each thread has one for each of the last few models
// that it used.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::formats {

// Thread: one at a time.
class WordCache {
 public:
  // This thread's cache of a model. Valid until the thread asks for that of another model.
  static WordCache& of(uint64_t model);

  static constexpr size_t kMaxWord = 255;  // bytes; longer words are not kept

  // Valid until add().
  std::optional<std::span<const int32_t>> find(std::string_view word) const;
  // `word`: not in the cache, at most kMaxWord bytes.
  void add(std::string_view word, std::span<const int32_t> ids);

 private:
  struct Entry {
    uint64_t hash;
    uint32_t text, ids;  // positions
    uint16_t size, count;
    bool used;
  };
  size_t slot_of(std::string_view word, uint64_t hash) const;
  void grow();

  std::vector<Entry> table_ = std::vector<Entry>(1024);
  size_t entries_ = 0;
  std::string texts_;
  std::vector<int32_t> ids_;
};

}  // namespace lockstep::formats
