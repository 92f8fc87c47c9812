// Finds the columns of a Parquet or Arrow file that store a pandas index.
#pragma once

#include <arrow/util/key_value_metadata.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::formats {

// Empty if the file has no valid pandas metadata.
inline std::vector<std::string> pandas_index(
    const std::shared_ptr<const arrow::KeyValueMetadata>& pairs) {
  if (!pairs) return {};
  const auto text = pairs->Get("pandas");
  if (!text.ok()) return {};
  const auto pandas = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!pandas.is_object()) return {};
  std::vector<std::string> names;
  const auto index = pandas.find("index_columns");
  if (index == pandas.end() || !index->is_array()) return {};
  for (const auto& column : *index)  // a RangeIndex is an object, not a column
    if (column.is_string()) names.push_back(column.get<std::string>());
  return names;
}

}  // namespace lockstep::formats
