#include "models/encoder/label_names.h"

#include <algorithm>
#include <set>

#include "models/encoder/encoder_config.h"

namespace lockstep {

models::LabelNames ConfigValue<models::LabelNames>::read(const ConfigNode& node,
                                                         const std::string& path) {
  const auto* const expected = "a number of labels from 1 to 100000, or a list of different names";
  models::LabelNames labels;
  if (node.kind == ConfigNode::Kind::Null) return labels;
  if (node.kind == ConfigNode::Kind::List) {
    labels.names = ConfigValue<std::vector<std::string>>::read(node, path);
    const std::set<std::string> different(labels.names.begin(), labels.names.end());
    if (labels.names.empty() || different.size() != labels.names.size())
      throw bad_value(node, path, expected);
    return labels;
  }
  labels.count = ConfigValue<int64_t>::read(node, path);
  if (labels.count < 1 || labels.count > 100'000) throw bad_value(node, path, expected);
  return labels;
}

Json ConfigValue<models::LabelNames>::dump(const models::LabelNames& labels) {
  if (!labels.names.empty()) return labels.names;
  return labels.count > 0 ? Json(labels.count) : Json(nullptr);
}

Json ConfigValue<models::LabelNames>::schema() {
  return {{"anyOf",
           Json::array({Json{{"type", "integer"}, {"minimum", 1}},
                        ConfigValue<std::vector<std::string>>::schema(), Json{{"type", "null"}}})}};
}

}  // namespace lockstep

namespace lockstep::models {

std::vector<std::string> LabelNames::resolve(const std::vector<std::string>& stored) const {
  if (!names.empty()) return names;
  return count == 0 || count == std::ssize(stored) ? stored : numbered_labels(count);
}

}  // namespace lockstep::models
