// Small Parquet files with all column types, encodings and compressions, by Arrow's writer.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>

#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

constexpr int kRows = 30;

// `missing`: every n-th value is missing; 0: none.
template <class Value, class Builder>
std::shared_ptr<arrow::Array> numbers(Builder builder, int missing) {
  for (int i = 0; i < kRows; ++i)
    PARQUET_THROW_NOT_OK(missing && i % missing == 0 ? builder.AppendNull()
                                                     : builder.Append(static_cast<Value>(i % 7)));
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> texts() {
  arrow::StringBuilder builder;
  for (size_t i = 0; i < kRows; ++i)
    PARQUET_THROW_NOT_OK(i % 4 == 0 ? builder.AppendNull()
                                    : builder.Append(std::string(i % 3 + 1, 'x')));
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Array> lists() {
  arrow::ListBuilder builder(arrow::default_memory_pool(), std::make_shared<arrow::FloatBuilder>());
  auto& values = static_cast<arrow::FloatBuilder&>(*builder.value_builder());
  for (int i = 0; i < kRows; ++i) {
    PARQUET_THROW_NOT_OK(i % 5 == 0 ? builder.AppendNull() : builder.Append());
    for (int j = 0; j < 3 && i % 5 != 0; ++j)
      PARQUET_THROW_NOT_OK(j == 1 && i % 2 ? values.AppendNull() : values.Append(0.5f));
  }
  return builder.Finish().ValueOrDie();
}

std::shared_ptr<arrow::Table> table() {
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

std::string file(const parquet::WriterProperties::Builder& properties, bool with_schema) {
  auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  parquet::ArrowWriterProperties::Builder arrow_properties;
  if (with_schema) arrow_properties.store_schema();
  PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(
      *table(), arrow::default_memory_pool(), out, kRows / 2,
      const_cast<parquet::WriterProperties::Builder&>(properties).build(),
      arrow_properties.build()));
  return out->Finish().ValueOrDie()->ToString();
}

}  // namespace

std::vector<std::string> fuzz_seeds() {
  using Builder = parquet::WriterProperties::Builder;
  Builder plain, packed, delta, checked;
  plain.disable_dictionary();
  packed.compression(parquet::Compression::SNAPPY)
      ->data_page_version(parquet::ParquetDataPageVersion::V2);
  delta.disable_dictionary()
      ->encoding("text", parquet::Encoding::DELTA_BYTE_ARRAY)
      ->encoding("int", parquet::Encoding::DELTA_BINARY_PACKED)
      ->encoding("long", parquet::Encoding::DELTA_BINARY_PACKED)
      ->encoding("double", parquet::Encoding::BYTE_STREAM_SPLIT);
  checked.compression(parquet::Compression::ZSTD)->enable_page_checksum();
  return {file(Builder(), true), file(plain, false), file(packed, false), file(delta, false),
          file(checked, false)};
}

}  // namespace lockstep
