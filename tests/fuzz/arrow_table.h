// A small table with columns of all supported types, for seeds.
#pragma once

#include <arrow/api.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep {

inline constexpr int kRows = 30;

inline void arrow_done(const arrow::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

// `missing`: every n-th value is missing; 0: none.
template <class Value, class Builder>
std::shared_ptr<arrow::Array> numbers(Builder builder, int missing) {
  for (int i = 0; i < kRows; ++i)
    arrow_done(missing && i % missing == 0 ? builder.AppendNull()
                                           : builder.Append(static_cast<Value>(i % 7)));
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Array> texts() {
  arrow::StringBuilder builder;
  for (size_t i = 0; i < kRows; ++i)
    arrow_done(i % 4 == 0 ? builder.AppendNull() : builder.Append(std::string(i % 3 + 1, 'x')));
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Array> lists() {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  auto& values = static_cast<arrow::FloatBuilder&>(*builder.value_builder());
  for (int i = 0; i < kRows; ++i) {
    arrow_done(i % 5 == 0 ? builder.AppendNull() : builder.Append());
    for (int j = 0; j < 3 && i % 5 != 0; ++j)
      arrow_done(j == 1 && i % 2 ? values.AppendNull() : values.Append(0.5f));
  }
  return builder.Finish().ValueOrDie();
}

inline std::shared_ptr<arrow::Table> arrow_table() {
  const auto millis = arrow::timestamp(arrow::TimeUnit::MILLI);
  auto* pool = arrow::default_memory_pool();
  std::vector<std::pair<const char*, std::shared_ptr<arrow::Array>>> columns = {
      {"double", numbers<double>(arrow::DoubleBuilder(), 0)},
      {"float", numbers<float>(arrow::FloatBuilder(), 5)},
      {"text", texts()},
      {"int", numbers<int32_t>(arrow::Int32Builder(), 3)},
      {"long", numbers<int64_t>(arrow::Int64Builder(), 0)},
      {"short", numbers<uint16_t>(arrow::UInt16Builder(), 0)},
      {"half", numbers<uint16_t>(arrow::HalfFloatBuilder(), 4)},
      {"list", lists()},
      {"truth", numbers<bool>(arrow::BooleanBuilder(), 6)},
      {"date", numbers<int32_t>(arrow::Date32Builder(), 0)},
      {"time", numbers<int64_t>(arrow::TimestampBuilder(millis, pool), 0)}};
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  const auto pandas = arrow::key_value_metadata({"pandas"}, {R"({"index_columns": ["long", {}]})"});
  return arrow::Table::Make(arrow::schema(fields, pandas), arrays);
}

}  // namespace lockstep
