#include "formats/tokenizer/models/word_cache.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

namespace lockstep::formats {
namespace {

constexpr size_t kMaxCachedWords = 1u << 17;
constexpr size_t kMaxCaches = 4;

uint64_t hash_of_word(std::string_view word) {
  constexpr uint64_t kFactor = 0x9E37'79B9'7F4A'7C15;
  uint64_t hash = word.size() * kFactor;
  const auto mix = [&](const char* from, size_t size) {
    uint64_t bytes = 0;
    std::memcpy(&bytes, from, size);
    hash = (hash ^ bytes) * kFactor;
    hash ^= hash >> 32;
  };
  size_t at = 0;
  for (; at + 8 <= word.size(); at += 8) mix(word.data() + at, 8);
  mix(word.data() + at, word.size() - at);
  return hash;
}

}  // namespace

WordCache& WordCache::of(uint64_t model) {
  using Known = std::pair<uint64_t, std::unique_ptr<WordCache>>;
  thread_local std::vector<Known> caches;  // the last used first
  if (!caches.empty() && caches.front().first == model) return *caches.front().second;
  auto found = std::ranges::find(caches, model, &Known::first);
  if (found == caches.end()) {
    if (caches.size() == kMaxCaches) caches.pop_back();
    caches.emplace_back(model, std::make_unique<WordCache>());
    found = caches.end() - 1;
  }
  std::rotate(caches.begin(), found, found + 1);
  return *caches.front().second;
}

size_t WordCache::slot_of(std::string_view word, uint64_t hash) const {
  const auto mask = table_.size() - 1;
  for (auto slot = hash & mask;; slot = (slot + 1) & mask) {
    const auto& entry = table_[slot];
    if (!entry.used) return slot;
    if (entry.hash == hash && entry.size == word.size() &&
        std::memcmp(texts_.data() + entry.text, word.data(), word.size()) == 0)
      return slot;
  }
}

std::optional<std::span<const int32_t>> WordCache::find(std::string_view word) const {
  const auto& entry = table_[slot_of(word, hash_of_word(word))];
  if (!entry.used) return std::nullopt;
  return std::span(ids_).subspan(entry.ids, entry.count);
}

void WordCache::add(std::string_view word, std::span<const int32_t> ids) {
  if (ids.size() > UINT16_MAX) return;
  if (entries_ == kMaxCachedWords) *this = WordCache();
  if (2 * entries_ >= table_.size()) grow();
  const auto hash = hash_of_word(word);
  table_[slot_of(word, hash)] = {.hash = hash,
                                 .text = static_cast<uint32_t>(texts_.size()),
                                 .ids = static_cast<uint32_t>(ids_.size()),
                                 .size = static_cast<uint16_t>(word.size()),
                                 .count = static_cast<uint16_t>(ids.size()),
                                 .used = true};
  texts_ += word;
  ids_.insert(ids_.end(), ids.begin(), ids.end());
  ++entries_;
}

void WordCache::grow() {
  std::vector<Entry> old(4 * table_.size());
  old.swap(table_);
  const auto mask = table_.size() - 1;
  for (const auto& entry : old) {
    if (!entry.used) continue;
    auto slot = entry.hash & mask;
    while (table_[slot].used) slot = (slot + 1) & mask;
    table_[slot] = entry;
  }
}

}  // namespace lockstep::formats
