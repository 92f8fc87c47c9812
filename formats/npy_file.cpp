#include "formats/npy_file.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cstring>
#include <optional>
#include <string_view>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {
namespace {

constexpr std::string_view kNpyMagic = "\x93NUMPY";
constexpr size_t kMaxNpyDims = 64;

Error bad_npy(const std::string& name, const std::string& why) {
  return config_error(name + ": not a usable .npy file: " + why);
}

// Parser of the header: a Python dict with three keys, written by repr().
class NpyHeader {
 public:
  NpyHeader(std::string_view text, const std::string& name) : rest_(text), name_(name) {}

  void parse() {
    expect('{');
    while (!accept('}')) {
      const auto key = text();
      expect(':');
      if (key == "descr")
        descr = text();
      else if (key == "fortran_order")
        fortran_order = boolean();
      else if (key == "shape")
        shape = tuple();
      else
        throw bad_npy(name_, fmt::format("unknown key '{}' in the header", printable(key)));
      if (!accept(',')) {
        expect('}');
        break;
      }
    }
    if (peek()) throw bad_npy(name_, "unexpected data after the header");
    if (!descr || !fortran_order || !shape)
      throw bad_npy(name_, "descr, fortran_order or shape is missing in the header");
  }

  std::optional<std::string> descr;
  std::optional<bool> fortran_order;
  std::optional<std::vector<int64_t>> shape;

 private:
  char peek() {
    const auto begin = rest_.find_first_not_of(" \n\t");
    rest_.remove_prefix(begin == rest_.npos ? rest_.size() : begin);
    return rest_.empty() ? '\0' : rest_.front();
  }
  bool accept(char expected) {
    if (peek() != expected || rest_.empty()) return false;
    rest_.remove_prefix(1);
    return true;
  }
  void expect(char expected) {
    if (!accept(expected)) throw bad_npy(name_, "its header is corrupt");
  }

  std::string text() {
    const auto quote = peek();
    if (quote == '[') throw bad_npy(name_, "structured arrays are not supported");
    if (quote != '\'' && quote != '"') throw bad_npy(name_, "its header is corrupt");
    const auto end = rest_.find(quote, 1);
    if (end == rest_.npos) throw bad_npy(name_, "its header is corrupt");
    std::string value(rest_.substr(1, end - 1));
    rest_.remove_prefix(end + 1);
    return value;
  }

  bool boolean() {
    peek();
    for (const auto& [word, value] : {std::pair{"True", true}, std::pair{"False", false}})
      if (rest_.starts_with(word)) {
        rest_.remove_prefix(std::string_view(word).size());
        return value;
      }
    throw bad_npy(name_, "its header is corrupt");
  }

  std::vector<int64_t> tuple() {
    std::vector<int64_t> values;
    expect('(');
    while (!accept(')')) {
      peek();
      int64_t value = 0;
      const auto result = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
      if (result.ec != std::errc{} || value < 0 || values.size() == kMaxNpyDims)
        throw bad_npy(name_, "its shape is corrupt");
      rest_.remove_prefix(static_cast<size_t>(result.ptr - rest_.data()));
      accept('L');  // Python 2
      values.push_back(value);
      if (!accept(',')) {
        expect(')');
        break;
      }
    }
    return values;
  }

  std::string_view rest_;
  const std::string& name_;
};

constexpr std::array<std::pair<const char*, ElementType>, 11> kNpyTypes = {
    {{"b1", ElementType::Bool},
     {"u1", ElementType::U8},
     {"i1", ElementType::I8},
     {"u2", ElementType::U16},
     {"i2", ElementType::I16},
     {"u4", ElementType::U32},
     {"i4", ElementType::I32},
     {"i8", ElementType::I64},
     {"f2", ElementType::F16},
     {"f4", ElementType::F32},
     {"f8", ElementType::F64}}};

ElementType npy_type(const std::string& descr, const std::string& name) {
  if (descr.size() > 1 && descr[0] == '>' && descr.substr(2) != "1")
    throw bad_npy(name, "its elements are big-endian ('" + printable(descr) +
                            "'); save a.astype(a.dtype.newbyteorder('=')) instead");
  if (descr.size() > 1 && std::string_view("<|=>").find(descr[0]) != std::string_view::npos)
    for (const auto& [code, type] : kNpyTypes)
      if (descr.compare(1, std::string::npos, code) == 0) return type;
  throw bad_npy(name, fmt::format("unsupported element type '{}'; valid: numbers of up to 8 bytes, "
                                  "unsigned integers of up to 4 bytes",
                                  printable(descr)));
}

std::string_view npy_header(std::span<const uint8_t> bytes, const std::string& name) {
  const std::string_view file(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  if (!file.starts_with(kNpyMagic))
    throw bad_npy(name, file.empty() ? "it is empty" : "it does not start with the .npy magic");
  if (file.size() < kNpyMagic.size() + 2) throw bad_npy(name, "it is truncated");
  const auto version = static_cast<uint8_t>(file[kNpyMagic.size()]);
  if (version < 1 || version > 3)
    throw bad_npy(name, fmt::format("its version {} is unknown", version));
  const size_t width = version == 1 ? 2 : 4, at = kNpyMagic.size() + 2;
  if (file.size() < at + width) throw bad_npy(name, "it is truncated");
  size_t length = 0;
  for (size_t i = 0; i < width; ++i) length |= size_t{bytes[at + i]} << (8 * i);
  if (length > file.size() - at - width) throw bad_npy(name, "it is truncated inside its header");
  return file.substr(at + width, length);
}

// Copies elements of `Size` bytes from Fortran order, which pandas data frames use.
template <size_t Size>
void copy_row_major(const StoredArray& array, std::vector<uint8_t>& out) {
  const auto& shape = array.shape;
  std::vector<size_t> strides(shape.size(), 1), index(shape.size(), 0);
  for (size_t d = 1; d < shape.size(); ++d)
    strides[d] = strides[d - 1] * static_cast<size_t>(shape[d - 1]);
  size_t from = 0;
  for (size_t to = 0; to < out.size(); to += Size) {
    std::memcpy(out.data() + to, array.bytes.data() + from * Size, Size);
    for (size_t d = shape.size(); d-- > 0;) {
      from += strides[d];
      if (++index[d] < static_cast<size_t>(shape[d])) break;
      from -= strides[d] * index[d];
      index[d] = 0;
    }
  }
}

void to_row_major(StoredArray& array) {
  auto memory = std::make_shared<std::vector<uint8_t>>(array.bytes.size());
  switch (bytes_of(array.type)) {
    case 1: copy_row_major<1>(array, *memory); break;
    case 2: copy_row_major<2>(array, *memory); break;
    case 4: copy_row_major<4>(array, *memory); break;
    default: copy_row_major<8>(array, *memory);
  }
  array.bytes = *memory;
  array.memory = std::move(memory);
}

}  // namespace

StoredArray parse_npy(std::span<const uint8_t> bytes, const std::string& name) {
  const auto text = npy_header(bytes, name);
  NpyHeader header(text, name);
  header.parse();
  StoredArray array{.name = name, .type = npy_type(*header.descr, name), .shape = *header.shape};
  const auto begin = static_cast<size_t>(reinterpret_cast<const uint8_t*>(text.data()) +
                                         text.size() - bytes.data());
  const auto found = bytes.size() - begin;
  const auto count = num_elements(array.shape);
  const auto element = bytes_of(array.type);
  if (!count || *count > found / element || *count * element != found)
    throw bad_npy(
        name, fmt::format("{} require {} bytes, found {}", array_text(array),
                          count && *count <= SIZE_MAX / element ? std::to_string(*count * element)
                                                                : std::string("too many"),
                          found));
  array.bytes = bytes.subspan(begin);
  if (*header.fortran_order && array.shape.size() > 1) to_row_major(array);
  return array;
}

}  // namespace lockstep::formats
