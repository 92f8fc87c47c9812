// Writes the members of a struct as JSON. A function fields(v, value) lists the members; it is used
// by FieldWriter and by FieldReader (core/field_reader.h). Example:
//   template <class V>
//   void fields(V& v, NodePlace& place) {
//     v("node_rank", place.node_rank, 0, kMaxRanks);
//     v("run_id", place.run_id);
//   }
#pragma once

#include <concepts>
#include <optional>
#include <vector>

namespace lockstep {

// `Json`: nlohmann::ordered_json or nlohmann::json.
template <class Json>
class FieldWriter {
 public:
  static constexpr bool kWrites = true;
  explicit FieldWriter(Json& object) : object_(object) {}

  template <class T>
  void operator()(const char* name, T& value, auto...) const {
    if constexpr (std::constructible_from<Json, T&>)
      object_[name] = value;
    else
      object_[name] = written(value);
  }
  // Omits the member if it is empty or has its default value.
  template <class T>
  void given(const char* name, std::optional<T>& value, auto...) const {
    if (value) (*this)(name, *value);
  }
  template <class T>
  void given(const char* name, T& value, auto...) const {
    if (value != T()) (*this)(name, value);
  }
  template <class T>
  void if_readable(const char* name, T& value) const {
    (*this)(name, value);
  }
  template <class T>
  void if_readable(const char* name, std::optional<T>& value) const {
    object_[name] = value ? Json(*value) : Json(nullptr);
  }
  void binary(const char* name, const auto& bytes) const {
    object_[name] = Json::binary({bytes.begin(), bytes.end()});
  }
  void pair(const char* name, const auto& a, const auto& b) const { object_[name] = {a, b}; }
  template <class T>
  void list(const char* name, std::vector<T>& items) const {
    auto& array = object_[name] = Json::array();
    for (auto& item : items) array.push_back(written(item));
  }
  // The reader skips items that it cannot read.
  void list_of_readable(const char* name, auto& items) const { list(name, items); }

  // Returns `value` as a JSON object.
  template <class T>
  static Json written(T& value) {
    auto json = Json::object();
    FieldWriter writer(json);
    fields(writer, value);
    return json;
  }

 private:
  Json& object_;
};

}  // namespace lockstep
