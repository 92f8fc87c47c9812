#include "lockstep/optimizer.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>

#include "lockstep/part.h"
#include "trainer/config/optimizer_choice.h"
#include "trainer/loop/gradients.h"
#include "trainer/optimizers/packed_state.h"

using namespace lockstep;
using namespace lockstep::trainer;

namespace {

std::shared_ptr<Optimizer> make(const std::string& yaml, const NamedTensors& parameters) {
  Part<Optimizer, const NamedTensors&> part(optimizer_registry());
  part.read(parse_config("o: " + yaml, "test").find("o")[0], "optimizer");
  return part.build(parameters);
}

NamedTensors parameters_with_gradients() {
  NamedTensors parameters;
  for (const auto* name : {"w", "b"}) {
    auto tensor = at::arange(4, at::kFloat).requires_grad_();
    tensor.mutable_grad() = at::full({4}, 0.5);
    parameters.emplace_back(name, tensor);
  }
  return parameters;
}

void step(Optimizer& optimizer, int times) {
  const at::NoGradGuard no_grad;
  for (int i = 0; i < times; ++i) optimizer.step(optimizer.base_lr());
}

}  // namespace

TEST_CASE("optimizers: restored state continues bit-identically") {
  for (const auto* yaml :
       {"{name: sgd, lr: 0.1, momentum: 0.9, nesterov: true}", "{name: sgd, lr: 0.1}",
        "{name: adamw, lr: 0.1, weight_decay: 0.1}", "{name: adamw, state: bf16}",
        "{name: adamw, state: int8}", "{name: lion}",
        "{name: rmsprop, momentum: 0.9, centered: true}", "{name: adagrad}", "{name: nadam}",
        "{name: radam}", "{name: adafactor}", "{name: muon}", "{name: adamw_schedule_free}"}) {
    CAPTURE(yaml);
    auto first = parameters_with_gradients(), second = parameters_with_gradients();
    auto whole = make(yaml, first);
    auto part = make(yaml, second);
    step(*whole, 5);
    step(*part, 2);
    auto resumed = make(yaml, second);
    resumed->load_state(part->state());
    step(*resumed, 3);
    for (size_t i = 0; i < first.size(); ++i) CHECK(at::equal(first[i].second, second[i].second));
  }
}

TEST_CASE("optimizers: state of another optimizer or shape is rejected by name") {
  auto parameters = parameters_with_gradients();
  auto adamw = make("{name: adamw}", parameters);
  CHECK_THROWS_WITH(adamw->load_state({}), Catch::Contains("no optimizer state 'exp_avg.w'"));
  auto state = adamw->state();
  state.front().second = at::zeros({5});
  CHECK_THROWS_WITH(adamw->load_state(state),
                    Catch::Contains("the shape of optimizer state 'exp_avg.w'"));
}

TEST_CASE("optimizers: averages of 8 bits are not taken for numbers, nor numbers for them") {
  const NamedTensors parameters = {{"w", at::zeros({4096})}};
  const auto int8 = make("{name: adamw, state: int8}", parameters);
  const auto lion = make("{name: lion}", parameters);
  const auto bf16 = make("{name: adamw, state: bf16}", parameters);
  CHECK_THROWS_WITH(lion->load_state(int8->state()),
                    "optimizer state 'exp_avg.w' is int8 in the checkpoint: set optimizer.name: "
                    "adamw and optimizer.state: int8");
  CHECK_THROWS_WITH(int8->load_state(bf16->state()),
                    "optimizer state 'exp_avg.w' is not int8 in the checkpoint: set "
                    "optimizer.state: fp32 or bf16");
  CHECK_NOTHROW(make("{name: adamw}", parameters)->load_state(bf16->state()));
}

TEST_CASE("optimizers: no momentum before the first gradient, also after a resume") {
  const auto* yaml = "{name: sgd, lr: 1, momentum: 0.5}";
  auto parameters = parameters_with_gradients();
  auto resumed = parameters_with_gradients();
  for (auto* of_run : {&parameters, &resumed}) (*of_run)[1].second.mutable_grad().reset();
  auto whole = make(yaml, parameters);
  make(yaml, resumed)->load_state(whole->state());  // nothing at all
  step(*whole, 2);
  auto other = make(yaml, resumed);
  step(*make(yaml, resumed), 2);
  NamedTensors state;
  for (const auto& [name, tensor] : whole->state()) state.emplace_back(name, tensor.clone());
  other->load_state(state);
  for (auto* of_run : {&parameters, &resumed})
    (*of_run)[1].second.mutable_grad() = at::full({4}, 0.5);
  step(*whole, 1);
  step(*other, 1);
  for (size_t i = 0; i < parameters.size(); ++i)
    CHECK(at::equal(parameters[i].second, resumed[i].second));
  CHECK_NOTHROW(other->load_state({{"momentum_buffer.frozen", at::zeros({4})}}));
  CHECK_THROWS_WITH(other->load_state({{"exp_avg.w", at::zeros({4})}}),
                    Catch::Contains("no optimizer state 'momentum_buffer.w'"));
  CHECK_THROWS_WITH(make("{name: sgd}", {})->load_state({{"exp_avg.w", at::zeros({4})}}),
                    Catch::Contains("'exp_avg.w', which sgd does not use"));
}

TEST_CASE("optimizers: settings without effect are rejected") {
  CHECK_THROWS_WITH(make("{name: sgd, nesterov: true}", {}),
                    Catch::Contains("nesterov needs momentum"));
  CHECK_THROWS_WITH(make("{name: sgd, dampening: 0.1}", {}),
                    Catch::Contains("no effect without momentum"));
  CHECK_THROWS_WITH(make("{name: sgd, weight_decay_on: matrices}", {}),
                    Catch::Contains("no effect without weight_decay"));
  CHECK_THROWS_WITH(make("{name: adamw, betas: [0.9]}", {}),
                    Catch::Contains("expected two numbers"));
}

TEST_CASE("optimizers: bad settings are rejected") {
  CHECK_THROWS_WITH(make("{name: lion, betas: [0.9]}", {}), Catch::Contains("two numbers"));
  CHECK_THROWS_WITH(make("{name: muon, coefficients: [1]}", {}), Catch::Contains("three numbers"));
  CHECK_THROWS_WITH(make("{name: muon, adamw: {lr: 0}}", {}), Catch::Contains("adamw.lr"));
  CHECK_THROWS_WITH(make("{name: nadam, decoupled: true}", {}),
                    Catch::Contains("no effect without weight_decay"));
  CHECK_THROWS_WITH(make("{name: adamw_schedule_free, betas: [0, 0.9]}", {}),
                    Catch::Contains("the first must be above 0"));
  CHECK_THROWS_WITH(make("{name: adamw, state: fp16}", {}), Catch::Contains("fp32, bf16, int8"));
}

TEST_CASE("optimizers: packed state takes a half and a quarter of the memory") {
  const auto bytes_with = [](const std::string& type) {
    const NamedTensors parameters = {{"w", at::zeros({300, 256})}, {"b", at::zeros({256})}};
    size_t bytes = 0;
    for (const auto& [name, tensor] :
         make("{name: adamw, state: " + type + "}", parameters)->state())
      bytes += tensor.nbytes();
    return bytes;
  };
  const size_t elements = 300 * 256 + 256, steps = 2 * sizeof(float);
  CHECK(bytes_with("fp32") == 8 * elements + steps);
  CHECK(bytes_with("bf16") == 4 * elements + steps);
  // A scale for each 256 elements; small parameters stay in fp32.
  CHECK(bytes_with("int8") == 2 * (300 * 256 + 300 * 4) + 8 * 256 + steps);
}

// Memory that is not contiguous is packed by operations of LibTorch, as on a GPU.
TEST_CASE("optimizers: the loops that pack a state have the bits of operations on tensors") {
  constexpr int64_t kPerScale = 256, kCount = 300 * kPerScale + 17;
  const auto scattered = [](const at::Tensor& tensor) {
    auto wide = at::zeros({2 * tensor.size(0)}, tensor.options()).slice(0, 0, std::nullopt, 2);
    return wide.copy_(tensor);
  };
  at::manual_seed(3);
  auto values = at::randn({kCount}) * at::randn({kCount}).exp();
  values.narrow(0, 0, kPerScale).zero_();              // a block without scale
  values.narrow(0, kPerScale, kPerScale).mul_(1e-42);  // denormal numbers
  values.narrow(0, 2 * kPerScale, 9).zero_();
  const auto squares = values.square();
  for (const float count : {1.0f, 2.0f, 70'000.0f}) {
    const auto step = at::scalar_tensor(count);
    const auto same = [&](at::ScalarType type, const at::Tensor& from, const auto& pack,
                          const auto& unpack) {
      const auto packed = at::empty({kCount}, type), others = scattered(packed);
      const auto scales = at::empty({301}), other_scales = at::empty({301});
      pack(packed, scales, from, step, kPerScale);
      pack(others, other_scales, scattered(from), step, kPerScale);
      CHECK(at::equal(packed, others));
      CHECK(at::equal(scales, other_scales));
      CHECK(at::equal(unpack(packed, scales, kPerScale), unpack(others, scales, kPerScale)));
    };
    same(at::kChar, values, pack_signed, unpack_signed);
    same(at::kByte, squares, pack_squares, unpack_squares);
    const auto packed = at::empty({kCount}, at::kBFloat16), others = scattered(packed);
    pack_bf16(packed, squares, step);
    pack_bf16(others, scattered(squares), step);
    CHECK(at::equal(packed, others));
  }
}

TEST_CASE("optimizers: the loop of a packed step has the bits of operations on tensors") {
  constexpr int64_t kPerScale = 256, kCount = 300 * kPerScale + 17, kScales = 301;
  at::manual_seed(4);
  const AdamNumbers n{0.1f, 0.999f, 0.001f, 0.9999f, 0.01f, 0.5f, 1e-8f};
  const auto step = at::scalar_tensor(3.0f);
  const auto gradient = at::randn({kCount}) * at::randn({kCount}).exp();
  const auto updated = [&](const at::Tensor& parameter, at::Tensor& average, at::Tensor& square) {
    average = average + (gradient - average) * n.average_weight;
    square = square * n.square_decay + gradient * n.square_weight * gradient;
    const auto root = square.to(at::kDouble).sqrt().to(at::kFloat);  // exact, unlike MKL's
    return parameter * n.kept_share - average * n.step_size / (root / n.root_correction + n.eps);
  };
  const auto parameter = at::randn({kCount});
  const auto before = at::randn({kCount}), square_before = at::randn({kCount}).square();

  const auto bf16 = before.to(at::kBFloat16), square_bf16 = square_before.to(at::kBFloat16);
  auto average = bf16.to(at::kFloat), square = square_bf16.to(at::kFloat);
  const auto expected = updated(parameter, average, square);
  auto result = parameter.clone();
  REQUIRE(update_in_loop({result, gradient, bf16, square_bf16, {}, {}}, n, step, kPerScale));
  const auto packed_square = at::empty_like(square_bf16);
  pack_bf16(packed_square, square, step);
  CHECK(at::equal(result, expected));
  CHECK(at::equal(bf16, average.to(at::kBFloat16)));
  CHECK(at::equal(square_bf16, packed_square));

  const auto bytes = at::empty({kCount}, at::kChar), square_bytes = at::empty({kCount}, at::kByte);
  const auto scales = at::empty({kScales}), square_scales = at::empty({kScales});
  pack_signed(bytes, scales, before, step, kPerScale);
  pack_squares(square_bytes, square_scales, square_before, step, kPerScale);
  average = unpack_signed(bytes, scales, kPerScale);
  square = unpack_squares(square_bytes, square_scales, kPerScale);
  const auto expected_int8 = updated(parameter, average, square);
  result = parameter.clone();
  const auto own = bytes.clone(), own_square = square_bytes.clone();
  const auto own_scales = scales.clone(), own_square_scales = square_scales.clone();
  REQUIRE(update_in_loop({result, gradient, own, own_square, own_scales, own_square_scales}, n,
                         step, kPerScale));
  pack_signed(bytes, scales, average, step, kPerScale);
  pack_squares(square_bytes, square_scales, square, step, kPerScale);
  CHECK(at::equal(result, expected_int8));
  CHECK(at::equal(own, bytes));
  CHECK(at::equal(own_square, square_bytes));
  CHECK(at::equal(own_scales, scales));
  CHECK(at::equal(own_square_scales, square_scales));
  CHECK_FALSE(
      update_in_loop({result.slice(0, 0, std::nullopt, 2), gradient, own, own_square, {}, {}}, n,
                     step, kPerScale));
}

// Except for roundings; all bits for parameters of other types, whose averages are not packed.
TEST_CASE("optimizers: steps with averages in bf16 are those of the fused kernel") {
  at::manual_seed(5);
  NamedTensors parameters;
  for (const auto& values :
       {at::randn({40, 33}), at::randn({40, 33}), at::empty({0, 3}), at::randn({70}, at::kDouble)})
    parameters.emplace_back("p" + std::to_string(parameters.size()), values.requires_grad_());
  const auto optimizer = make("{name: adamw, state: bf16, lr: 0.1, weight_decay: 0.2}", parameters);
  for (int count = 1; count <= 4; ++count) {
    const auto number = at::scalar_tensor(static_cast<float>(count));
    NamedTensors expected;
    for (auto& [name, parameter] : parameters) {
      const auto gradient = name == "p1" ? at::randn({33, 40}).t() : at::randn_like(parameter);
      parameter.mutable_grad() = gradient.detach();
      const auto type = parameter.scalar_type();
      const auto state_of = [&](const std::string& kind) {
        return find_tensor(optimizer->state(), kind + name)->to(type, false, /*copy=*/true);
      };
      const auto weights = parameter.detach().clone();
      const auto average = state_of("exp_avg."), square = state_of("exp_avg_sq.");
      at::_fused_adamw_({weights}, {gradient.detach().contiguous()}, {average}, {square}, {},
                        {number}, 0.1, 0.9, 0.999, 0.2, 1e-8, false, false);
      expected.insert(
          expected.end(),
          {{name, weights}, {"exp_avg." + name, average}, {"exp_avg_sq." + name, square}});
    }
    step(*optimizer, 1);
    auto updated = optimizer->state();
    updated.insert(updated.end(), parameters.begin(), parameters.end());
    for (const auto& [name, tensor] : expected) {
      CAPTURE(count, name);
      const auto type = find_tensor(updated, name)->scalar_type();
      const double bound = type == at::kBFloat16 ? 0x1p-7 : type == at::kFloat ? 1e-6 : 0;
      const auto found = find_tensor(updated, name)->to(tensor.scalar_type());
      CHECK(at::allclose(found, tensor, bound, type == at::kDouble ? 0 : 1e-7));
    }
  }
}

TEST_CASE("optimizers: the evaluation weights of schedule-free are exchanged exactly") {
  auto parameters = parameters_with_gradients();
  auto optimizer = make("{name: adamw_schedule_free, lr: 0.1}", parameters);
  CHECK(optimizer->has_evaluation_weights());
  step(*optimizer, 3);
  const at::NoGradGuard no_grad;
  const auto before = parameters[0].second.clone();
  optimizer->use_evaluation_weights();
  CHECK_FALSE(at::equal(parameters[0].second, before));
  CHECK(at::equal(*find_tensor(optimizer->state(), "y.w"), before));
  optimizer->use_training_weights();
  CHECK(at::equal(parameters[0].second, before));
}

TEST_CASE("optimizers: groups have their own settings, and the first match counts") {
  OptimizerChoice choice;
  choice.read(*parse_config("o: {name: sgd, lr: 1, momentum: 0.5, groups: ["
                            "{match: b, lr: 0.5}, {match: '?', momentum: 0}, "
                            "{match: '*', frozen: true}]}",
                            "test")
                   .find("o"),
              "optimizer");
  CHECK_FALSE(choice.is_frozen("b"));
  CHECK(choice.is_frozen("layer.weight"));
  CHECK_NOTHROW(choice.verify_groups({"b", "w"}));
  CHECK_THROWS_WITH(
      choice.verify_groups({"w", "layer.weight"}),
      "test:1: optimizer.groups[0].match: no parameter matches 'b'; did you mean 'w'?");
  auto parameters = parameters_with_gradients();
  const auto optimizer = choice.build(parameters);
  CHECK(optimizer->base_lr() == 1);
  CHECK(optimizer->is_elementwise());
  step(*optimizer, 1);
  CHECK(at::equal(parameters[0].second, at::arange(4, at::kFloat) - 0.5));
  CHECK(at::equal(parameters[1].second, at::arange(4, at::kFloat) - 0.25));
  CHECK(optimizer->state().size() == 1);  // momentum of b
  const auto dumped = choice.dump();
  OptimizerChoice again;
  again.read(*parse_config("o: " + dumped.dump(), "dump").find("o"), "optimizer");
  CHECK(again.dump() == dumped);
}

TEST_CASE("optimizers: parameters without a gradient are unchanged") {
  auto parameters = parameters_with_gradients();
  parameters[1].second.mutable_grad().reset();
  auto optimizer = make("{name: sgd, lr: 1, momentum: 0.5}", parameters);
  step(*optimizer, 2);
  CHECK(at::equal(parameters[1].second, at::arange(4, at::kFloat)));
  CHECK_FALSE(at::equal(parameters[0].second, at::arange(4, at::kFloat)));
}

TEST_CASE("gradients: a batch is weighted by its share of the samples of the step") {
  const auto loss = at::scalar_tensor(1.0, at::kDouble);
  CHECK(weighted_loss(loss, {4, 10}).item<double>() == Approx(0.4));
  CHECK(weighted_loss(loss, {2, 10}).item<double>() == 0.2);
  CHECK(weighted_loss(loss, {7, 7}).is_same(loss));
  CHECK(weighted_loss(loss, {0, 7}).item<double>() == 0);
}

TEST_CASE("gradients: every target has the same weight") {
  const auto count = [](int64_t targets) { return at::scalar_tensor(targets, at::kLong); };
  WorldOptions options;
  options.device = DeviceChoice::Cpu;
  const auto connected = World::connect(options);
  auto& world = *connected;
  const auto divisors_of = [&](const std::vector<at::Tensor>& targets) {
    return target_divisors(targets, total_targets(world, targets), 1);
  };
  const auto equal = divisors_of({count(96), count(96), count(96)});
  for (const auto& divisor : equal) CHECK(divisor.item<double>() == 3);
  CHECK(divisors_of({count(96)}).front().item<double>() == 1);
  const auto unequal = divisors_of({count(10), count(0), count(30)});
  CHECK(unequal[0].item<double>() == 4);
  CHECK(std::isfinite(unequal[1].item<double>()));  // its loss is 0
  CHECK(unequal[2].item<double>() == Approx(4 / 3.0));
  CHECK(divisors_of({count(0)}).front().item<double>() == 1);
}

TEST_CASE("gradients: clipping scales to the limit and leaves smaller gradients unchanged") {
  auto parameters = parameters_with_gradients();  // norm sqrt(8 * 0.25)
  const double norm = std::sqrt(2.0);
  CHECK(clip_gradients(StepGradients(parameters), 10).item<double>() == Approx(norm));
  CHECK(at::equal(parameters[0].second.grad(), at::full({4}, 0.5)));
  CHECK(clip_gradients(StepGradients(parameters), norm / 2).item<double>() == Approx(norm));
  CHECK(parameters[1].second.grad()[0].item<double>() == Approx(0.25).epsilon(1e-5));
}
