// Small Parquet files with all column types, encodings and compressions, by Arrow's writer.
#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <parquet/arrow/writer.h>

#include "tests/fuzz/arrow_table.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {
namespace {

std::string file(const parquet::WriterProperties::Builder& properties, bool with_schema) {
  auto out = arrow::io::BufferOutputStream::Create().ValueOrDie();
  parquet::ArrowWriterProperties::Builder arrow_properties;
  if (with_schema) arrow_properties.store_schema();
  PARQUET_THROW_NOT_OK(parquet::arrow::WriteTable(
      *arrow_table(), arrow::default_memory_pool(), out, kRows / 2,
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
