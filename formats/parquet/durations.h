// Durations in Parquet files, which are stored as integers: only the Arrow schema among the metadata
// says which columns are durations.
#pragma once

#include <arrow/api.h>
#include <parquet/arrow/schema.h>
#include <parquet/properties.h>

#include <memory>
#include <string>
#include <vector>

#include "formats/parquet/arrow_columns.h"
#include "formats/parquet/arrow_errors.h"

namespace lockstep::formats {

// For each leaf column, the stored units of a second if it contains durations, otherwise 1. Throws
// Config if the Arrow schema is invalid.
inline std::vector<double> units_of_columns(
    const parquet::SchemaDescriptor& schema,
    const std::shared_ptr<const arrow::KeyValueMetadata>& pairs, const std::string& name) {
  std::vector<double> units(static_cast<size_t>(schema.num_columns()), 1);
  if (!pairs || !pairs->Contains("ARROW:schema")) return units;
  parquet::arrow::SchemaManifest manifest;
  accept(parquet::arrow::SchemaManifest::Make(&schema, pairs, parquet::ArrowReaderProperties(),
                                              &manifest),
         name);
  for (size_t leaf = 0; leaf < units.size(); ++leaf) {
    const parquet::arrow::SchemaField* found = nullptr;
    accept(manifest.GetColumnField(static_cast<int>(leaf), &found), name);
    const auto& type = *found->field->type();
    if (type.id() == arrow::Type::DURATION)
      units[leaf] = units_per_second(static_cast<const arrow::DurationType&>(type).unit());
  }
  return units;
}

// `units`: see units_of_columns().
inline void convert_to_seconds(std::vector<TableColumn>& columns, double units) {
  if (units == 1) return;
  for (auto& column : columns)
    for (auto& number : column.numbers) number /= units;
}

}  // namespace lockstep::formats
