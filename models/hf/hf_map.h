// Typed access to the config.json of a model in Hugging Face's layout. No LibTorch.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/error.h"

namespace lockstep::models {

// Parses untrusted text of limited depth, with the order of its members. `where`: for messages.
// Throws Config.
nlohmann::ordered_json parse_hf_json(std::string_view text, const std::string& where);

// Says in a config.json that the weights are fp32, as they are in checkpoints. from_pretrained()
// converts them to the type that it finds there. Returns whether `config` was changed.
bool set_fp32_weights(nlohmann::ordered_json& config);

// A JSON object; null counts as missing. Refers to `json`. All functions throw Config, naming the key
// and what is valid.
class HfMap {
 public:
  HfMap(const nlohmann::ordered_json& json, std::string where);

  Error wrong(const std::string& problem) const;
  bool has(const char* key) const { return json_.contains(key) && !json_.at(key).is_null(); }
  bool is_null(const char* key) const { return json_.contains(key) && json_.at(key).is_null(); }

  // An integer from `min` to 2^31.
  int64_t size(const char* key, std::optional<int64_t> fallback = std::nullopt,
               int64_t min = 1) const;
  double number(const char* key, std::optional<double> fallback = std::nullopt) const;
  std::optional<double> optional_number(const char* key) const;
  bool flag(const char* key, bool fallback) const;
  std::string text(const char* key, std::optional<std::string> fallback = std::nullopt) const;
  // Empty if there is none.
  std::vector<std::string> texts(const char* key) const;
  HfMap map(const char* key) const;
  const nlohmann::ordered_json& at(const char* key) const;

 private:
  const nlohmann::ordered_json& json_;
  std::string where_;
};

}  // namespace lockstep::models
