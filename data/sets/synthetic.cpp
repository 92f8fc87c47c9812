// Dataset "synthetic": generated numbers of any shape and type, for measurements, tests and first
// steps. A sample is a function of (seed, index): equal on every rank, worker and machine. Fields:
// those of its config.
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "core/config/config_map.h"
#include "core/printable.h"
#include "formats/element_type.h"
#include "lockstep/config_value.h"
#include "lockstep/dataset.h"
#include "lockstep/error.h"
#include "lockstep/sample_random.h"

namespace lockstep::data {
namespace {

enum class SyntheticDtype { Float32, Float64, Int64, Int32, UInt8, Bool };
constexpr auto choices(SyntheticDtype) {
  return std::array{"float32", "float64", "int64", "int32", "uint8", "bool"};
}

enum class SyntheticValues { Normal, Uniform, Index };
constexpr auto choices(SyntheticValues) { return std::array{"normal", "uniform", "index"}; }

struct SyntheticField {
  std::vector<int64_t> shape;
  SyntheticDtype dtype = SyntheticDtype::Float32;
  SyntheticValues values = SyntheticValues::Normal;
  std::optional<double> low, high;
};

template <class V>
void fields(V& v, SyntheticField& c) {
  v("shape", c.shape, "shape of one sample; an empty list: a scalar", at_least(0));
  v("dtype", c.dtype, "type of its elements");
  v("values", c.values,
    "normal: mean 0, standard deviation 1; uniform: from low (inclusive) to high (exclusive); "
    "index: the index of the sample");
  v("low", c.low, "smallest value (0)", needs("values: uniform"));
  v("high", c.high, "upper bound of the values (1; integers: 10; bool and uint8: their range)",
    needs("values: uniform"));
}

struct SyntheticConfig {
  int64_t samples = 1000;
  int64_t seed = 0;
  ConfigMap<SyntheticField> fields = {
      {"image", {.shape = {1, 28, 28}}},
      {"label", {.dtype = SyntheticDtype::Int64, .values = SyntheticValues::Uniform, .high = 10}}};
};

template <class V>
void fields(V& v, SyntheticConfig& c) {
  v("samples", c.samples, "number of samples", at_least(1));
  v("seed", c.seed, "seed of the values", at_least(0));
  v("fields", c.fields, "fields of a batch: field: {shape, dtype, values, low, high}");
}

// A field with its defaults resolved.
struct NumberSource {
  std::string name;
  std::vector<int64_t> shape;
  at::ScalarType type;
  size_t elements;
  SyntheticValues values;
  double low, high;
};

double default_high(at::ScalarType type) {
  if (c10::isFloatingType(type)) return 1;
  if (type == at::kByte) return 256;
  return type == at::kBool ? 2 : 10;
}

// The range in which integers are exact as doubles.
std::pair<double, double> range_of(at::ScalarType type) {
  if (type == at::kByte) return {0, 256};
  if (type == at::kBool) return {0, 2};
  if (type == at::kInt) return {-2147483648.0, 2147483648.0};
  return type == at::kLong ? std::pair{-0x1p53, 0x1p53} : std::pair{-1e30, 1e30};
}

at::ScalarType scalar_type_of(SyntheticDtype dtype) {
  constexpr std::array types = {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kByte, at::kBool};
  return types.at(static_cast<size_t>(dtype));
}

NumberSource source_of(const std::string& name, const SyntheticField& field) {
  const auto refused = [&](const std::string& why) {
    return config_error(fmt::format("dataset synthetic: field '{}': {}", printable(name), why));
  };
  const auto type = scalar_type_of(field.dtype);
  const auto elements = formats::num_elements(field.shape);
  if (!elements || *elements > (size_t{1} << 32)) throw refused("its shape is too large");
  if (field.values == SyntheticValues::Normal && !c10::isFloatingType(type))
    throw refused("normal values need a dtype of float32 or float64; or set values: uniform");
  const auto low = field.low.value_or(0), high = field.high.value_or(default_high(type));
  const auto [least, limit] = range_of(type);
  if (!(low < high) || low < least || high > limit)
    throw refused(
        fmt::format("low {} must be below high {}, within {} and {}", low, high, least, limit));
  return {name, field.shape, type, *elements, field.values, low, high};
}

template <class T>
void draw(const NumberSource& source, SampleRandom& random, int64_t index, T* out) {
  if (source.values == SyntheticValues::Index) {
    std::fill_n(out, source.elements, static_cast<T>(index));
    return;
  }
  if (source.values == SyntheticValues::Uniform) {
    for (size_t i = 0; i < source.elements; ++i) {
      const auto value = random.uniform(source.low, source.high);
      out[i] = static_cast<T>(std::is_integral_v<T> ? std::floor(value) : value);
    }
    return;
  }
  // Box and Muller: two uniform numbers give two normal ones.
  for (size_t i = 0; i < source.elements; i += 2) {
    const auto radius = std::sqrt(-2 * std::log1p(-random.uniform()));
    const auto angle = 2 * std::numbers::pi * random.uniform();
    out[i] = static_cast<T>(radius * std::cos(angle));
    if (i + 1 < source.elements) out[i + 1] = static_cast<T>(radius * std::sin(angle));
  }
}

class SyntheticDataset final : public Dataset {
 public:
  using Config = SyntheticConfig;

  explicit SyntheticDataset(const Config& config)
      : samples_(config.samples), seed_(static_cast<uint64_t>(config.seed)) {
    for (const auto& [name, field] : config.fields) sources_.push_back(source_of(name, field));
    if (sources_.empty()) throw config_error("dataset synthetic: it has no fields");
  }

  int64_t size() const override { return samples_; }

  std::vector<FieldLayout> layout() const override {
    std::vector<FieldLayout> layout;
    for (const auto& source : sources_) layout.push_back({source.name, source.type, source.shape});
    return layout;
  }

  void fill(const SampleRequest& request, std::span<const at::Tensor> fields) const override {
    for (size_t f = 0; f < sources_.size(); ++f)
      AT_DISPATCH_ALL_TYPES_AND(at::kBool, sources_[f].type, "synthetic", [&] {
        auto* out = fields[f].data_ptr<scalar_t>();
        for (const auto index : request.indices) {
          check(index >= 0 && index < samples_, "sample index outside the dataset");
          // The field replaces the epoch in the key: samples do not change between epochs.
          SampleRandom random(seed_, static_cast<int64_t>(f), index);
          draw(sources_[f], random, index, out);
          out += sources_[f].elements;
        }
      });
  }

  SampleInfo sample_info() const override {
    return {.labels = [this] { return numbers_of("label"); },
            .lengths = [this] { return numbers_of("length"); },
            .weights = [this] { return numbers_of("weight"); }};
  }

 private:
  // One number per sample; empty if there is no scalar field of this name.
  std::vector<double> numbers_of(const std::string& field) const {
    for (size_t f = 0; f < sources_.size(); ++f) {
      if (sources_[f].name != field || !sources_[f].shape.empty()) continue;
      std::vector<double> all(static_cast<size_t>(samples_));
      for (int64_t i = 0; i < samples_; ++i) {
        SampleRandom random(seed_, static_cast<int64_t>(f), i);
        draw(sources_[f], random, i, &all[static_cast<size_t>(i)]);
        if (!c10::isFloatingType(sources_[f].type))
          all[static_cast<size_t>(i)] = std::floor(all[static_cast<size_t>(i)]);
      }
      return all;
    }
    return {};
  }

  int64_t samples_;
  uint64_t seed_;
  std::vector<NumberSource> sources_;
};

REGISTER_DATASET("synthetic", SyntheticDataset, "generated numbers of any shape and type");

}  // namespace
}  // namespace lockstep::data
