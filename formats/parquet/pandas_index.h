// Which columns of a Parquet file pandas wrote as the index of its rows.
#pragma once

#include <parquet/metadata.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace lockstep::formats {

// Empty where the file says nothing of it, or something that pandas does not write.
inline std::vector<std::string> pandas_index(const parquet::FileMetaData& metadata) {
  const auto& pairs = metadata.key_value_metadata();
  if (!pairs) return {};
  const auto text = pairs->Get("pandas");
  if (!text.ok()) return {};
  const auto pandas = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!pandas.is_object()) return {};
  std::vector<std::string> names;
  const auto index = pandas.find("index_columns");
  if (index == pandas.end() || !index->is_array()) return {};
  for (const auto& column : *index)  // a range of numbers is an object, and no column
    if (column.is_string()) names.push_back(column.get<std::string>());
  return names;
}

}  // namespace lockstep::formats
