// The parameters of a sweep: keys of the run file, and the values that each may have.
//
//   space:
//     optimizer.lr: {log_uniform: [1e-4, 1]}
//     optimizer.name: {choice: [sgd, adamw]}
//     optimizer.momentum: {uniform: [0, 0.99], when: {optimizer.name: sgd}}
//     model.depth: {int: [1, 8]}
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lockstep/config_value.h"

namespace lockstep::sweep {

// The values of a trial by key, "optimizer.lr", without those whose conditions do not hold.
using Point = Json;

// The member of nested maps at a path such as "optimizer.lr"; nullptr if there is none. The value
// itself for an empty path.
const Json* member_of(const Json& value, const std::string& path);

// Holds if the parameter at `key` has one of `values`. `key` may also lead into the chosen maps of a
// parameter: "optimizer.name" if `optimizer` is a choice of maps.
struct Condition {
  std::string key;
  std::vector<Json> values;
};

struct Parameter {
  enum class Kind { Choice, Uniform, LogUniform, Int, LogInt };

  std::string key;
  Kind kind = Kind::Uniform;
  std::vector<Json> choices;  // of a Choice, else empty
  double low = 0, high = 1;   // inclusive
  int64_t step = 1;           // of an Int: low, low + step, ...
  int64_t points = 0;         // values of a grid; 0: not given
  std::vector<Condition> when;
  std::string origin;  // file and line

  bool is_choice() const { return kind == Kind::Choice; }
  bool is_integer() const { return kind == Kind::Int || kind == Kind::LogInt; }
  bool is_log() const { return kind == Kind::LogUniform || kind == Kind::LogInt; }

  // Number of values, of a Choice or an integer.
  int64_t count() const;
  // The value at `unit`, in [0, 1), of its (logarithmic) range; each value of a Choice has the same
  // share.
  Json at(double unit) const;
  // The middle of the units of a value, which is one of the parameter's; of a range, the unit.
  double unit_of(const Json& value) const;
  // The place of a value in the list of choices. Throws Config if it is not there.
  size_t place_of(const Json& value) const;
};

struct Space {
  std::vector<Parameter> parameters;  // those that others depend on come first

  const Parameter* find(const std::string& key) const;
  // Whether the conditions of `parameter` hold at `point`, which has all that it depends on.
  bool is_active(const Parameter& parameter, const Point& point) const;
  // The point at a unit per parameter (Parameter::at); those that are not active are left out.
  Point at(const std::vector<double>& units) const;
  // A unit per parameter, of `point`; 0.5 for those that are not active.
  std::vector<double> units_of(const Point& point) const;
  // Throws Config if `point` has an unknown key, a missing one, or a value out of range.
  void verify(const Point& point) const;
};

// A value of a run file as JSON: unquoted scalars are numbers and bools where they can be.
Json to_json(const ConfigNode& node);

// "optimizer.lr=0.1": overrides of a run file that set the point, maps before their members.
std::vector<std::string> overrides_of(const Point& point);

}  // namespace lockstep::sweep

namespace lockstep {

// Orders the parameters. Throws Config for an impossible condition: of an unknown parameter, of a
// value that it never has, or of a circle, and for conditions that exclude each other.
template <>
struct ConfigValue<sweep::Space> {
  static sweep::Space read(const ConfigNode& node, const std::string& path);
  static Json dump(const sweep::Space& space);
  static Json schema() { return {{"type", "object"}}; }
};

}  // namespace lockstep
