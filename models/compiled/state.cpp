#include "models/compiled/state.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "core/printable.h"
#include "lockstep/error.h"
#include "models/filling.h"

namespace lockstep::models {
namespace {

// A module whose part of the graphs is separate.
struct CompiledUnit final : Block {};

void verify_name(const TensorSpec& spec, const std::string& package) {
  const bool has_all = !spec.name.empty() && spec.name.front() != '.' && spec.name.back() != '.' &&
                       spec.name.find("..") == std::string::npos;
  if (!has_all)
    throw config_error(
        fmt::format("{}: invalid parameter or buffer name '{}'", package, printable(spec.name)));
}

class Registration {
 public:
  Registration(torch::nn::Module& root, std::shared_ptr<const CompiledPackage> package)
      : root_(root), package_(std::move(package)) {}

  CompiledState state() {
    const auto& manifest = package_->manifest();
    for (const auto& spec : manifest.parameters) {
      const auto place = place_of(spec);
      auto& parameter = place.module->register_parameter(place.name, empty(spec), spec.marked);
      models::fill(parameter.detach(), [package = package_, spec](const at::Tensor& tensor) {
        package->copy_weight(spec.name, tensor.mutable_data_ptr());
      });
      add(parameter, place.block);
    }
    for (const auto& spec : manifest.buffers) {
      const auto place = place_of(spec);
      auto& buffer = place.module->register_buffer(place.name, empty(spec));
      package_->copy_weight(spec.name, buffer.mutable_data_ptr());
      add(buffer, nullptr);
      if (spec.marked) state_.changed.push_back(buffer);
    }
    return std::move(state_);
  }

 private:
  struct Place {
    torch::nn::Module* module;
    std::string name;  // in it
    Block* block;      // that contains it; null: none
  };

  // Creates the modules on the path if necessary.
  Place place_of(const TensorSpec& spec) {
    verify_name(spec, package_->name());
    Place place{&root_, spec.name, nullptr};
    for (auto dot = place.name.find('.'); dot != std::string::npos; dot = place.name.find('.')) {
      const auto part = place.name.substr(0, dot);
      place.name.erase(0, dot + 1);
      const auto path = spec.name.substr(0, spec.name.size() - place.name.size() - 1);
      const auto children = place.module->named_children();
      place.module = children.contains(part)
                         ? children[part].get()
                         : place.module->register_module(part, make_module(path)).get();
      if (auto* const block = place.module->as<Block>()) place.block = block;
    }
    return place;
  }

  std::shared_ptr<torch::nn::Module> make_module(const std::string& path) const {
    if (std::ranges::count(package_->manifest().units, path))
      return std::make_shared<CompiledUnit>();
    return std::make_shared<torch::nn::Module>();
  }

  at::Tensor empty(const TensorSpec& spec) const {
    return at::empty(spec.shape, scalar_type_of(spec, package_->name()));
  }

  void add(const at::Tensor& tensor, Block* block) {
    state_.tensors.push_back(tensor);
    state_.blocks.push_back(block);
  }

  torch::nn::Module& root_;
  std::shared_ptr<const CompiledPackage> package_;
  CompiledState state_;
};

}  // namespace

CompiledState register_state(torch::nn::Module& root,
                             const std::shared_ptr<const CompiledPackage>& package) {
  return Registration(root, package).state();
}

at::ScalarType scalar_type_of(const TensorSpec& spec, const std::string& package) {
  constexpr std::array<std::pair<const char*, at::ScalarType>, 10> kTypes = {
      {{"float32", at::kFloat},
       {"float64", at::kDouble},
       {"float16", at::kHalf},
       {"bfloat16", at::kBFloat16},
       {"int64", at::kLong},
       {"int32", at::kInt},
       {"int16", at::kShort},
       {"int8", at::kChar},
       {"uint8", at::kByte},
       {"bool", at::kBool}}};
  for (const auto& [name, type] : kTypes)
    if (spec.dtype == name) return type;
  throw config_error(fmt::format("{}: '{}' has unsupported type {}", package, printable(spec.name),
                                 printable(spec.dtype)));
}

}  // namespace lockstep::models
