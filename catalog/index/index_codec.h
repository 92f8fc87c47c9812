// Serialization for files that the same program reads: one list of fields defines both directions
// (catalog/index/catalog_index.cpp). Frequent texts are stored as indices into a table.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "catalog/index/name_table.h"
#include "tracking/log/event_frame.h"

namespace lockstep::catalog {

template <class T>
concept PlainNumber = std::is_arithmetic_v<T> && !std::is_same_v<T, bool>;

class IndexWriter {
 public:
  explicit IndexWriter(const NameTable& names) : names_(names) {}

  template <PlainNumber T>
  void value(const T& number) {
    bytes_.append(reinterpret_cast<const char*>(&number), sizeof(number));
  }
  void value(const bool& truth) { bytes_ += truth ? '\1' : '\0'; }
  void value(const std::string& text) {
    value(static_cast<uint32_t>(text.size()));
    bytes_ += text;
  }
  template <class T>
  void value(const std::optional<T>& maybe) {
    value(maybe.has_value());
    if (maybe) value(*maybe);
  }
  template <class E>
  void choice(const E& one, E) {
    value(static_cast<uint8_t>(one));
  }
  void name(const uint32_t& number) {
    if (number == NameTable::kNone) return value(number);
    const auto [it, is_new] = places_.try_emplace(number, static_cast<uint32_t>(texts_.size()));
    if (is_new) texts_.push_back(names_.text(number));
    value(it->second);
  }
  template <class T, class Each>
  void list(const std::vector<T>& all, const Each& each) {
    value(static_cast<uint32_t>(all.size()));
    for (const auto& one : all) each(*this, one);
  }

  // What was written since the last call.
  std::string take() { return std::exchange(bytes_, {}); }
  // In the order of their indices.
  const std::vector<std::string>& texts() const { return texts_; }

 private:
  const NameTable& names_;
  std::string bytes_;
  std::unordered_map<uint32_t, uint32_t> places_;
  std::vector<std::string> texts_;
};

// Safe for any input: missing bytes leave values unchanged and is_whole() false.
class IndexReader {
 public:
  // `places`: the numbers, in the table of names, of the texts that go with the bytes.
  IndexReader(std::string_view bytes, const std::vector<uint32_t>& places)
      : bytes_(bytes), places_(places) {}

  template <PlainNumber T>
  void value(T& number) {
    if (!bytes_.take(number)) fail();
  }
  void value(bool& truth) {
    uint8_t byte = 0;
    value(byte);
    truth = byte == 1;
  }
  void value(std::string& text) {
    uint32_t size = 0;
    value(size);
    const auto rest = bytes_.rest();
    if (size > rest.size()) return fail();
    text = rest.substr(0, size);
    bytes_ = tracking::PayloadReader(rest.substr(size));
  }
  template <class T>
  void value(std::optional<T>& maybe) {
    bool has = false;
    value(has);
    if (has) value(maybe.emplace());
  }
  template <class E>
  void choice(E& one, E last) {
    uint8_t number = 0;
    value(number);
    if (number > static_cast<uint8_t>(last)) return fail();
    one = static_cast<E>(number);
  }
  void name(uint32_t& number) {
    uint32_t place = 0;
    value(place);
    if (place == NameTable::kNone)
      number = place;
    else if (place < places_.size())
      number = places_[place];
    else
      fail();
  }
  template <class T, class Each>
  void list(std::vector<T>& all, const Each& each) {
    uint32_t count = 0;
    value(count);
    // Each element takes at least a byte, so the input size bounds the memory.
    for (uint32_t i = 0; i < count && !failed_; ++i) {
      if (bytes_.rest().empty()) return fail();
      each(*this, all.emplace_back());
    }
  }

  bool is_whole() const { return !failed_ && bytes_.rest().empty(); }

 private:
  void fail() {
    failed_ = true;
    bytes_ = tracking::PayloadReader({});
  }

  tracking::PayloadReader bytes_;
  const std::vector<uint32_t>& places_;
  bool failed_ = false;
};

}  // namespace lockstep::catalog
