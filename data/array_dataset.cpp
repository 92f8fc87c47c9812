#include "data/array_dataset.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "core/error.h"
#include "core/nearest_name.h"
#include "core/printable.h"

namespace lockstep {
namespace {

at::ScalarType scalar_type_of(ElementType type) {
  switch (type) {
    case ElementType::Bool: return at::kBool;
    case ElementType::U8: return at::kByte;
    case ElementType::I8: return at::kChar;
    case ElementType::I16: return at::kShort;
    case ElementType::U16:
    case ElementType::I32: return at::kInt;
    case ElementType::U32:
    case ElementType::I64: return at::kLong;
    case ElementType::F16: return at::kHalf;
    case ElementType::BF16: return at::kBFloat16;
    case ElementType::F32: return at::kFloat;
    case ElementType::F64: return at::kDouble;
  }
  return at::kByte;
}

at::ScalarType scalar_type_of(const std::string& dtype) {
  return scalar_type_of(*element_type_of(dtype));
}

bool is_floating(ElementType type) { return type >= ElementType::F16; }

// Calls `use` with a value of the C++ type that `type` stands for.
template <class Use>
void with_stored_type(ElementType type, const Use& use) {
  switch (type) {
    case ElementType::Bool:  // a byte that may be anything
    case ElementType::U8: return use(uint8_t{});
    case ElementType::I8: return use(int8_t{});
    case ElementType::U16: return use(uint16_t{});
    case ElementType::I16: return use(int16_t{});
    case ElementType::U32: return use(uint32_t{});
    case ElementType::I32: return use(int32_t{});
    case ElementType::I64: return use(int64_t{});
    case ElementType::F16: return use(c10::Half{});
    case ElementType::BF16: return use(c10::BFloat16{});
    case ElementType::F32: return use(float{});
    case ElementType::F64: return use(double{});
  }
}

template <class From, class To>
void convert_row(const uint8_t* row, size_t count, const ArrayFieldConfig& change, To* out) {
  const auto divisor = static_cast<To>(change.divide_by.value_or(1));
  const auto mean = static_cast<To>(change.mean.value_or(0));
  const auto deviation = static_cast<To>(change.std.value_or(1));
  const bool normalises = change.mean.has_value();
  for (size_t i = 0; i < count; ++i) {
    From value{};
    std::memcpy(&value, row + i * sizeof(From), sizeof(From));
    out[i] = static_cast<To>(value);
  }
  if (change.divide_by)
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>(out[i] / divisor);
  if (normalises)
    for (size_t i = 0; i < count; ++i) out[i] = static_cast<To>((out[i] - mean) / deviation);
}

template <class Use>
void with_given_type(at::ScalarType type, const Use& use) {
  switch (type) {
    case at::kFloat: return use(float{});
    case at::kDouble: return use(double{});
    case at::kInt: return use(int32_t{});
    case at::kLong: return use(int64_t{});
    default: check(false, "a conversion to another type than those a field can have");
  }
}

}  // namespace

ArrayDataset::ArrayDataset(std::string name, const ArrayDatasetConfig& config,
                           std::vector<StoredArray> arrays)
    : name_(std::move(name)), path_(printable(config.path, 400)) {
  if (config.fields.empty())
    for (const auto& array : arrays) fields_.push_back(make_field(array.name, {}, arrays));
  for (const auto& [field, change] : config.fields)
    fields_.push_back(make_field(field, change, arrays));
  if (fields_.empty()) throw refused("it holds no arrays");
  size_ = fields_.front().array.shape.front();
  for (const auto& field : fields_)
    if (field.array.shape.front() != size_)
      throw refused(fmt::format("'{}' has {} samples, but '{}' has {}", fields_.front().name, size_,
                                field.name, field.array.shape.front()));
  if (config.limit && *config.limit > size_)
    throw refused(
        fmt::format("limit {} is more than the {} samples there are", *config.limit, size_));
  size_ = config.limit.value_or(size_);
}

Error ArrayDataset::refused(const std::string& why) const {
  return config_error(fmt::format("dataset {}: {}: {}", name_, path_, why));
}

ArrayDataset::Field ArrayDataset::make_field(const std::string& name,
                                             const ArrayFieldConfig& change,
                                             const std::vector<StoredArray>& arrays) const {
  const auto wanted = change.from.value_or(name);
  const auto found = std::ranges::find(arrays, wanted, &StoredArray::name);
  if (found == arrays.end()) {
    std::vector<std::string> names;
    for (const auto& array : arrays) names.push_back(array.name);
    throw refused(fmt::format("no array '{}'{}", printable(wanted), suggest(wanted, names)));
  }
  Field field{.name = name, .array = *found, .change = change, .given = at::kByte};
  const auto& array = field.array;
  if (array.shape.empty())
    throw refused(fmt::format("array '{}' is a single number: samples need a first dimension",
                              printable(wanted)));
  field.shape.assign(array.shape.begin() + 1, array.shape.end());
  field.row_elements = *num_elements(field.shape);
  if (change.mean.has_value() != change.std.has_value())
    throw refused(fmt::format("field '{}': mean and std belong together", printable(name)));
  const bool computes = change.divide_by || change.mean;
  field.given = change.dtype ? scalar_type_of(*change.dtype)
                : computes   ? at::kFloat
                             : scalar_type_of(array.type);
  const bool to_integers = c10::isIntegralType(field.given, true);
  if (computes && to_integers)
    throw refused(
        fmt::format("field '{}': divide_by, mean and std need a dtype of float32 or "
                    "float64",
                    printable(name)));
  const bool narrows =
      field.given == at::kInt && (array.type == ElementType::I64 || array.type == ElementType::U32);
  if (change.dtype && to_integers && (is_floating(array.type) || narrows))
    throw refused(fmt::format("field '{}': {} would lose digits as {}", printable(name),
                              name_of(array.type), *change.dtype));
  const bool widens = array.type == ElementType::U16 || array.type == ElementType::U32;
  field.is_copy = !computes && !widens && field.given == scalar_type_of(array.type);
  return field;
}

std::vector<FieldLayout> ArrayDataset::layout() const {
  std::vector<FieldLayout> layout;
  for (const auto& field : fields_) layout.push_back({field.name, field.given, field.shape});
  return layout;
}

void ArrayDataset::fill(const SampleRequest& request, std::span<const at::Tensor> tensors) const {
  for (const auto index : request.indices)
    check(index >= 0 && index < size_, "sample index outside the dataset");
  for (size_t f = 0; f < fields_.size(); ++f) {
    const auto& field = fields_[f];
    const auto row_bytes = field.row_elements * bytes_of(field.array.type);
    const auto* base = field.array.bytes.data();
    if (field.is_copy) {
      auto* out = static_cast<uint8_t*>(tensors[f].data_ptr());
      for (const auto index : request.indices) {
        std::memcpy(out, base + static_cast<size_t>(index) * row_bytes, row_bytes);
        if (field.array.type == ElementType::Bool)
          std::transform(out, out + row_bytes, out, [](uint8_t byte) { return byte != 0; });
        out += row_bytes;
      }
      continue;
    }
    with_given_type(field.given, [&](auto to) {
      auto* out = tensors[f].data_ptr<decltype(to)>();
      with_stored_type(field.array.type, [&](auto from) {
        for (const auto index : request.indices) {
          convert_row<decltype(from)>(base + static_cast<size_t>(index) * row_bytes,
                                      field.row_elements, field.change, out);
          out += field.row_elements;
        }
      });
    });
  }
  verify_unchanged();
}

void ArrayDataset::verify_unchanged() const {
  const MappedFile* verified = nullptr;  // all tensors of a safetensors file lie in one
  for (const auto& field : fields_) {
    if (field.array.mapped && field.array.mapped.get() != verified)
      field.array.mapped->verify_unchanged();
    verified = field.array.mapped.get();
  }
}

Batch ArrayDataset::get_batch(std::span<const int64_t> indices) const {
  return gather(*this, {.indices = indices});
}

std::vector<double> ArrayDataset::values(const std::string& what) const {
  const auto field = std::ranges::find(fields_, what, &Field::name);
  if (field == fields_.end() || !field->shape.empty()) return {};
  std::vector<double> all(static_cast<size_t>(size_));
  with_stored_type(field->array.type, [&](auto from) {
    convert_row<decltype(from)>(field->array.bytes.data(), all.size(), field->change, all.data());
  });
  verify_unchanged();
  return all;
}

}  // namespace lockstep
