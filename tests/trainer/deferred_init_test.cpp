#include "trainer/prepared/deferred_init.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/rnn.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <stdexcept>

#include "lockstep/named_tensors.h"
#include "models/filling.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

constexpr uint64_t kSeed = 5;

using Construct = std::function<void(torch::nn::Module&)>;

struct Constructed final : Model {
  explicit Constructed(const Construct& construct) { construct(*this); }
  Outputs forward(const Batch&) override { return {}; }
};

DeferredInit::Built build(const Construct& construct) {
  return DeferredInit::build(kSeed, [&] { return std::make_shared<Constructed>(construct); });
}

NamedTensors values_after_seed(const Construct& construct) {
  at::manual_seed(kSeed);
  return tensors_of(Constructed(construct));
}

bool is_any(const std::string& /*name*/) { return true; }

void check_same_values(const NamedTensors& values, const NamedTensors& expected) {
  REQUIRE(values.size() == expected.size());
  for (size_t i = 0; i < values.size(); ++i) {
    CAPTURE(values[i].first);
    CHECK(values[i].first == expected[i].first);
    CHECK(at::equal(values[i].second, expected[i].second));
  }
}

void add_layers(torch::nn::Module& module) {
  namespace nn = torch::nn;
  module.register_module("linear", nn::Linear(33, 7));
  module.register_module("conv", nn::Conv2d(3, 5, 3));
  auto table =
      module.register_module("table", nn::Embedding(nn::EmbeddingOptions(9, 6).padding_idx(2)));
  module.register_module("lstm", nn::LSTM(4, 3));
  auto truncated = module.register_module("truncated", nn::Linear(20, 10));
  const at::NoGradGuard no_grad;
  nn::init::kaiming_normal_(table->weight);
  truncated->weight.uniform_(-0.9, 0.9).erfinv_().mul_(0.02).clamp_(-2, 2);
  truncated->bias.narrow(0, 0, 4).normal_();
  truncated->bias.narrow(0, 4, 6).data().fill_(3);
  module.register_parameter("constant", at::full({3}, 2.0));
  models::fill(module.register_parameter("stored", at::empty({6})).detach(),
               [](const at::Tensor& tensor) { tensor.copy_(at::arange(6.0)); });
  module.register_buffer("positions", at::arange(4));
}

// Each would have other values if it were deferred.
const std::vector<std::pair<const char*, Construct>> kNotDeferrable = {
    {"reads a value",
     [](auto& module) {
       auto weight = module.register_parameter("weight", at::empty({20}).normal_());
       const at::NoGradGuard no_grad;
       weight.div_(weight.norm());
     }},
    {"draws until it has what it wants",
     [](auto& module) {
       auto weight = module.register_parameter("weight", at::empty({20}).normal_());
       const at::NoGradGuard no_grad;
       while (weight.abs().max().template item<float>() > 1.5) weight.normal_();
     }},
    {"draws a new tensor",
     [](auto& module) {
       module.register_parameter("first", at::empty({20}).normal_());
       module.register_parameter("second", at::randn({20}));
       module.register_parameter("third", at::empty({20}).normal_());
     }},
    {"copies a value",
     [](auto& module) {
       auto first = module.register_parameter("first", at::empty({4, 5}).normal_());
       module.register_parameter("second", first.detach().t().reshape({20}));
     }},
    {"writes through a pointer",
     [](auto& module) {
       auto weight = module.register_parameter("weight", at::empty({4000}).normal_());
       weight.template data_ptr<float>()[2500] = 7;
     }},
    {"uses the generator",
     [](auto& module) {
       auto generator = at::detail::getDefaultCPUGenerator();
       const auto number = at::check_generator<at::CPUGeneratorImpl>(generator)->random();
       module.register_parameter("weight", at::full({2}, static_cast<double>(number)));
       module.register_parameter("other", at::empty({20}).normal_());
     }},
    {"sets the seed",
     [](auto& module) {
       module.register_parameter("weight", at::empty({20}).normal_());
       at::manual_seed(kSeed);
       module.register_parameter("other", at::empty({20}).normal_());
     }},
    {"has a random buffer",
     [](auto& module) {
       module.register_parameter("weight", at::empty({20}).normal_());
       module.register_buffer("noise", at::empty({20}).normal_());
     }},
    {"has its own generator", [](auto& module) {
       module.register_parameter("weight",
                                 at::empty({20}).normal_(0, 1, at::detail::createCPUGenerator(3)));
     }}};

}  // namespace

TEST_CASE("deferred init: all parameters have the same values as without") {
  const auto expected = values_after_seed(add_layers);
  const auto built = build(add_layers);
  REQUIRE(built.deferred);
  std::set<std::string> visited;
  const auto names = built.deferred->names(is_any);
  built.deferred->compute(is_any, [&](const auto& name, const auto& values) {
    CHECK(name == names.at(visited.size()));
    visited.insert(name);
    CHECK(at::equal(values, *find_tensor(expected, name)));
  });
  CHECK(visited.size() == built.model->named_parameters().size());
  check_same_values(tensors_of(*built.model), expected);
}

TEST_CASE("deferred init: a selection has the same values, and the generator is unchanged") {
  const auto expected = values_after_seed(add_layers);
  const auto built = build(add_layers);
  REQUIRE(built.deferred);
  const auto is_wanted = [](const std::string& name) { return name.starts_with("lstm"); };
  at::manual_seed(1);
  const auto next = at::rand({4});
  at::manual_seed(1);
  std::vector<std::string> visited;
  const auto names = built.deferred->names(is_wanted);
  built.deferred->compute(is_wanted, [&](const auto& name, const auto& values) {
    visited.push_back(name);
    CHECK(at::equal(values, *find_tensor(expected, name)));
  });
  CHECK(visited.size() == 4);
  CHECK(visited == names);
  CHECK(at::equal(at::rand({4}), next));
}

TEST_CASE("deferred init: nothing is computed while the model is built") {
  at::Tensor weight;
  const auto built = build([&](torch::nn::Module& module) {
    weight = module.register_parameter("weight", at::full({4}, 7.0));
    const at::NoGradGuard no_grad;
    weight.normal_().mul_(3);
  });
  REQUIRE(built.deferred);
  CHECK(at::equal(weight, at::full({4}, 7.0)));
  const auto stored = build([](torch::nn::Module& module) {
    models::fill(module.register_parameter("stored", at::empty({6})).detach(),
                 [](const at::Tensor&) { throw std::runtime_error("not needed"); });
  });
  REQUIRE(stored.deferred);
  stored.deferred->compute([](const auto&) { return false; }, [](const auto&, const auto&) {});
}

TEST_CASE("deferred init: memory of a parameter is freed after its visit") {
  const auto built = build([](torch::nn::Module& module) {
    for (const auto* name : {"a", "b", "c"}) module.register_module(name, torch::nn::Linear(8, 8));
  });
  REQUIRE(built.deferred);
  for (auto& parameter : built.model->parameters()) parameter.set_data(at::zeros({8}));
  std::vector<c10::Storage> previous;
  built.deferred->compute(is_any, [&](const auto& /*name*/, const auto& values) {
    for (const auto& storage : previous) CHECK(storage.use_count() == 1);
    previous.push_back(values.storage());
  });
  CHECK(previous.size() == 6);
}

TEST_CASE("deferred init: a constructor that cannot be deferred has the same values as without") {
  for (const auto& [name, construct] : kNotDeferrable) {
    CAPTURE(name);
    const auto built = build(construct);
    CHECK(!built.deferred);
    check_same_values(tensors_of(*built.model), values_after_seed(construct));
  }
}

TEST_CASE("deferred init: errors of a constructor are not hidden") {
  const auto fails = [](torch::nn::Module& module) {
    module.register_parameter("weight", at::empty({20}).normal_());
    throw std::runtime_error("wrong");
  };
  CHECK_THROWS_WITH(build(fails), "wrong");
  // An in-place operation on a leaf that requires gradients.
  CHECK_THROWS(build([](torch::nn::Module& module) {
    module.register_parameter("weight", at::empty({20})).normal_();
  }));
}
