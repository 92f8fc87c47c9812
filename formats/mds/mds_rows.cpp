#include "formats/mds/mds_rows.h"

#include <fmt/format.h>

#include <bit>
#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "core/printable.h"
#include "formats/table/word_numbers.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr size_t kWord = sizeof(uint32_t);
constexpr int kShapeBits = 2;  // of the code of an array's shape: the width of its extents

template <class T>
double loaded(const uint8_t* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return static_cast<double>(value);
}

// IEEE 754 half precision.
double half_at(const uint8_t* from) {
  uint16_t bits = 0;
  std::memcpy(&bits, from, sizeof(bits));
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double size = exponent == 31  ? (fraction ? std::numeric_limits<double>::quiet_NaN()
                                                  : std::numeric_limits<double>::infinity())
                      : exponent == 0 ? std::ldexp(fraction, -24)
                                      : std::ldexp(1024 + fraction, exponent - 25);
  return bits >> 15 ? -size : size;
}

double number_at(MdsNumber type, const uint8_t* from) {
  switch (type) {
    case MdsNumber::U8: return loaded<uint8_t>(from);
    case MdsNumber::I8: return loaded<int8_t>(from);
    case MdsNumber::U16: return loaded<uint16_t>(from);
    case MdsNumber::I16: return loaded<int16_t>(from);
    case MdsNumber::F16: return half_at(from);
    case MdsNumber::U32: return loaded<uint32_t>(from);
    case MdsNumber::I32: return loaded<int32_t>(from);
    case MdsNumber::F32: return loaded<float>(from);
    case MdsNumber::U64: return loaded<uint64_t>(from);
    case MdsNumber::I64: return loaded<int64_t>(from);
    case MdsNumber::F64: return loaded<double>(from);
  }
  return std::numeric_limits<double>::quiet_NaN();
}

std::string_view text_of(std::span<const uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

MdsRows::MdsRows(std::span<const uint8_t> bytes, const std::vector<MdsColumn>& columns,
                 int64_t samples, std::string name)
    : bytes_(bytes), columns_(columns), samples_(samples), name_(std::move(name)) {
  const auto header = (static_cast<uint64_t>(samples) + 2) * kWord;
  if (bytes.size() < header)
    throw config_error(fmt::format("{}: {} bytes are too few for {} samples: it is truncated",
                                   name_, bytes.size(), samples));
  if (word_at(0) != samples)
    throw config_error(
        fmt::format("{}: it has {} samples, but {} in index.json", name_, word_at(0), samples));
  for (const auto& column : columns_) head_ += column.size == 0 ? kWord : 0;
}

uint32_t MdsRows::word_in(std::span<const uint8_t> bytes, size_t place) {
  uint32_t word = 0;
  std::memcpy(&word, bytes.data() + place, kWord);
  return word;
}

Error MdsRows::corrupt(int64_t row, const std::string& why) const {
  return config_error(fmt::format("{}: sample {}: {}", name_, row + 1, why));
}

std::pair<size_t, size_t> MdsRows::place_of(int64_t row) const {
  check(row >= 0 && row < samples_, "sample outside of its shard");
  const auto place = (1 + static_cast<size_t>(row)) * kWord;
  const size_t begin = word_at(place), end = word_at(place + kWord);
  if (begin > end || end > bytes_.size()) throw corrupt(row, "it is outside of the file");
  return {begin, end - begin};
}

std::span<const uint8_t> MdsRows::value(size_t column, int64_t row) const {
  const auto [begin, size] = place_of(row);
  return value_in(bytes_.subspan(begin, size), column, row);
}

std::span<const uint8_t> MdsRows::value_in(std::span<const uint8_t> sample, size_t column,
                                           int64_t row) const {
  if (head_ > sample.size()) throw corrupt(row, "it is shorter than its columns");
  size_t place_of_size = 0, next = head_, first = 0, size = 0;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const bool is_stored = columns_[i].size == 0;
    const auto bytes =
        is_stored ? word_in(sample, place_of_size) : static_cast<size_t>(columns_[i].size);
    if (is_stored) place_of_size += kWord;
    if (i == column) {
      first = next;
      size = bytes;
    }
    next += bytes;
  }
  if (next != sample.size())
    throw corrupt(row, fmt::format("it has {} bytes, but its columns have {}: index.json is of "
                                   "another version, or the sample is corrupt",
                                   sample.size(), next));
  return sample.subspan(first, size);
}

std::vector<TableColumn> MdsRows::column(size_t number, std::span<const int64_t> rows) const {
  std::vector<TableColumn> columns;
  switch (columns_[number].kind) {
    case MdsKind::Array: return arrays(number, rows);
    case MdsKind::Text: columns.push_back(texts(number, rows)); break;
    case MdsKind::Number:
    case MdsKind::NumberText: columns.push_back(numbers(number, rows)); break;
    default:
      throw config_error(fmt::format(
          "{}: column '{}' is {}; supported: numbers, str and ndarray; list the columns to use "
          "(images: dataset mds_images)",
          name_, printable(columns_[number].name), printable(columns_[number].encoding)));
  }
  return columns;
}

TableColumn MdsRows::numbers(size_t number, std::span<const int64_t> rows) const {
  const auto& column = columns_[number];
  TableColumn out{.name = column.name};
  for (const auto row : rows) {
    const auto bytes = value(number, row);
    if (column.kind == MdsKind::Number) {
      out.numbers.push_back(number_at(*column.number, bytes.data()));
      continue;
    }
    const auto text = text_of(bytes);
    double parsed = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), parsed);
    if (text.empty() || end.ec != std::errc() || end.ptr != text.data() + text.size())
      throw corrupt(row, fmt::format("column '{}': '{}' is not a number", printable(column.name),
                                     printable(text, 40)));
    out.numbers.push_back(parsed);
  }
  return out;
}

TableColumn MdsRows::texts(size_t number, std::span<const int64_t> rows) const {
  TableColumn out{.name = columns_[number].name, .is_text = true, .is_complete = true};
  WordNumbers known;
  for (const auto row : rows) {
    std::string text(text_of(value(number, row)));
    if (find_invalid_utf8(text) != text.npos)
      throw corrupt(row, fmt::format("column '{}' is not UTF-8", printable(out.name)));
    out.codes.push_back(number_of_word(std::move(text), out, known));
  }
  return out;
}

MdsRows::Numbers MdsRows::numbers_of(const MdsColumn& column, std::span<const uint8_t> value,
                                     int64_t row) const {
  const auto bad = [&] {
    return corrupt(row, fmt::format("column '{}' is not an array", printable(column.name)));
  };
  size_t next = 0;
  std::optional<size_t> count;  // by the stored shape
  auto type = column.number;
  if (!type) {
    if (value.empty()) throw bad();
    type = mds_number(value[next++]);
  }
  if (column.shape.empty()) {
    if (!type || next >= value.size()) throw bad();
    const int code = value[next++];
    const auto width = size_t{1} << (code & 3);
    count = 1;
    for (int left = code >> kShapeBits; left > 0; --left) {
      uint64_t extent = 0;
      if (width > value.size() - next) throw bad();
      std::memcpy(&extent, value.data() + next, width);
      next += width;
      if (extent > value.size() || (*count *= extent) > value.size()) throw bad();
    }
  }
  if (!type) throw bad();
  const auto bytes = value.subspan(next);
  const auto size = static_cast<size_t>(bytes_of(*type));
  if (bytes.size() % size != 0 || (count && bytes.size() / size != *count)) throw bad();
  return {*type, bytes};
}

std::vector<TableColumn> MdsRows::arrays(size_t number, std::span<const int64_t> rows) const {
  const auto& column = columns_[number];
  std::vector<TableColumn> columns;
  bool is_first = true;
  for (const auto row : rows) {
    const auto [type, bytes] = numbers_of(column, value(number, row), row);
    const auto size = static_cast<size_t>(bytes_of(type)), count = bytes.size() / size;
    if (count == 0) throw corrupt(row, fmt::format("column '{}' is empty", printable(column.name)));
    if (count > kMaxListLength)
      throw corrupt(row,
                    fmt::format("column '{}' {}", printable(column.name), too_long_list(count)));
    if (is_first) {
      columns.resize(count);
      for (size_t i = 0; i < count; ++i) {
        columns[i].name = element_name(column.name, i);
        columns[i].list = column.name;
      }
    }
    is_first = false;
    if (count != columns.size())
      throw corrupt(row, fmt::format("column '{}' has {} numbers, but {} in other samples: all "
                                     "arrays must have the same size",
                                     printable(column.name), count, columns.size()));
    for (size_t i = 0; i < count; ++i)
      columns[i].numbers.push_back(number_at(type, bytes.data() + i * size));
  }
  return columns;
}

}  // namespace lockstep::formats
