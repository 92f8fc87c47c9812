// Adam and AdamW as one fused kernel call over all parameters, with the bits of Python's
// torch.optim.Adam(fused=True) and torch.optim.AdamW(fused=True).
//
// With adamw's `state: bf16` or `int8`, the averages are unpacked, updated in float32, and packed again
// (packed_state.h): on a CPU in one loop, on a GPU with the same kernel, one parameter at a time.
#include <ATen/ATen.h>

#include <cmath>

#include "trainer/optimizers/foreach_optimizer.h"
#include "trainer/optimizers/packed_state.h"

namespace lockstep::trainer {
namespace {

struct AdamConfig {
  double lr = 1e-3;
  std::vector<double> betas = {0.9, 0.999};
  double eps = 1e-8;
  double weight_decay = 0;
  WeightDecay weight_decay_on = WeightDecay::All;
};

struct AdamWConfig : AdamConfig {
  AdamWConfig() { weight_decay = 1e-2; }
  StateType state = StateType::Float32;
};

template <class V>
void add_fields(V& v, AdamConfig& c, const char* decay_help) {
  v("lr", c.lr, "learning rate", above(0));
  v("betas", c.betas, "decay rates of the averages of gradient and squared gradient", at_least(0),
    below(1));
  v("eps", c.eps, "added to the denominator", above(0));
  v("weight_decay", c.weight_decay, decay_help, at_least(0));
  v("weight_decay_on", c.weight_decay_on, kDecayHelp, needs("weight_decay"));
}

template <class V>
void fields(V& v, AdamConfig& c) {
  add_fields(v, c, "L2 penalty");
}

template <class V>
void fields(V& v, AdamWConfig& c) {
  add_fields(v, c, "decoupled weight decay");
  v("state", c.state,
    "type of the averages: fp32, bf16 (half the memory), or int8 with a scale per 256 elements (a "
    "quarter)");
}

// Smaller parameters, e.g. biases and norms, are not worth packing in 8 bits.
constexpr int64_t kLeastPacked = 4096;

// The averages of other parameters have their type.
bool can_pack(const at::Tensor& parameter) { return parameter.scalar_type() == at::kFloat; }

class AdamOptimizer : public ForeachOptimizer {
 public:
  AdamOptimizer(const AdamConfig& config, const NamedTensors& parameters, bool decouples,
                StateType type = StateType::Float32)
      : ForeachOptimizer(parameters, config.lr, {config.weight_decay, config.weight_decay_on}),
        config_(config),
        kernel_(decouples ? kDecoupled : kPlain),
        type_(type) {
    verify_betas(config.betas);
    exp_avg_ = add_average("exp_avg", at::kChar);
    exp_avg_sq_ = add_average("exp_avg_sq", at::kByte);
    step_ = add_scalar("step", 0, /*on_device=*/true);
    if (type != StateType::Int8) return;
    scale_ = add_scales("exp_avg_scale");
    scale_sq_ = add_scales("exp_avg_sq_scale");
  }

  bool is_elementwise() const override { return type_ != StateType::Int8; }

 protected:
  bool uses_blocks() const override { return false; }

  void begin_step(const Lists& lists, double /*lr*/) override {
    at::_foreach_add_(lists.states[step_], 1);
  }

  void update(const Lists& lists, double lr, double weight_decay) override {
    if (type_ == StateType::Float32)
      return run(lists.parameters, lists.gradients, lists.states[exp_avg_],
                 lists.states[exp_avg_sq_], lists.states[step_], lr, weight_decay);
    for (size_t i = 0; i < lists.parameters.size(); ++i) update_packed(lists, i, lr, weight_decay);
  }

 private:
  bool is_int8(const at::Tensor& parameter) const {
    return type_ == StateType::Int8 && can_pack(parameter) && parameter.numel() >= kLeastPacked &&
           parameter.is_contiguous();
  }

  size_t add_average(const char* kind, at::ScalarType packed) {
    return add_state(kind, [&](const auto&, const auto& parameter) {
      const bool is_bf16 = type_ == StateType::BFloat16 && can_pack(parameter);
      const auto type = is_int8(parameter) ? packed
                        : is_bf16          ? at::kBFloat16
                                           : parameter.scalar_type();
      return at::zeros_like(parameter, parameter.options().dtype(type), at::MemoryFormat::Preserve)
          .detach();
    });
  }

  size_t add_scales(const char* kind) {
    return add_state(kind, [&](const auto&, const auto& parameter) {
      if (!is_int8(parameter)) return at::Tensor();
      const auto count = (parameter.numel() + kElementsPerScale - 1) / kElementsPerScale;
      return at::zeros({count}, parameter.options().dtype(at::kFloat)).detach();
    });
  }

  void run(at::TensorList parameters, at::TensorList gradients, at::TensorList averages,
           at::TensorList squares, at::TensorList steps, double lr, double weight_decay) const {
    kernel_(parameters, gradients, averages, squares, /*max_exp_avg_sqs=*/{}, steps, lr,
            config_.betas[0], config_.betas[1], weight_decay, config_.eps, /*amsgrad=*/false,
            /*maximize=*/false, /*grad_scale=*/{}, /*found_inf=*/{});
  }

  // Computed as by the kernel.
  AdamNumbers numbers_of(const at::Tensor& step, double lr, double weight_decay) const {
    const double count = *step.const_data_ptr<float>();
    const auto correction = 1 - std::pow(config_.betas[0], count);
    const auto square_correction = 1 - std::pow(config_.betas[1], count);
    return {.average_weight = static_cast<float>(1 - config_.betas[0]),
            .square_decay = static_cast<float>(config_.betas[1]),
            .square_weight = static_cast<float>(1 - config_.betas[1]),
            .kept_share = static_cast<float>(1 - lr * weight_decay),
            .step_size = static_cast<float>(lr / correction),
            .root_correction = static_cast<float>(std::sqrt(square_correction)),
            .eps = static_cast<float>(config_.eps)};
  }

  // One parameter, so that unpacked averages need little memory.
  void update_packed(const Lists& lists, size_t i, double lr, double weight_decay) const {
    const auto& parameter = lists.parameters[i];
    const auto& packed = lists.states[exp_avg_][i];
    const auto& packed_sq = lists.states[exp_avg_sq_][i];
    const auto& step = lists.states[step_][i];
    const auto scales = [&](size_t kind) {
      return type_ == StateType::Int8 ? lists.states[kind][i] : at::Tensor();
    };
    const bool is_packed = packed.scalar_type() != parameter.scalar_type();
    if (is_packed && parameter.is_cpu() &&
        update_in_loop(
            {parameter, lists.gradients[i], packed, packed_sq, scales(scale_), scales(scale_sq_)},
            numbers_of(step, lr, weight_decay), step, kElementsPerScale))
      return;
    const auto run_on = [&](const at::Tensor& average, const at::Tensor& square) {
      run({parameter}, {lists.gradients[i]}, {average}, {square}, {step}, lr, weight_decay);
    };
    if (!is_packed) return run_on(packed, packed_sq);
    if (type_ == StateType::BFloat16) {
      const auto average = packed.to(at::kFloat), square = packed_sq.to(at::kFloat);
      run_on(average, square);
      packed.copy_(average);
      return pack_bf16(packed_sq, square, step);
    }
    const auto flat = packed.view(-1), flat_sq = packed_sq.view(-1);
    const auto &scale = lists.states[scale_][i], &scale_sq = lists.states[scale_sq_][i];
    const auto average = unpack_signed(flat, scale, kElementsPerScale);
    const auto square = unpack_squares(flat_sq, scale_sq, kElementsPerScale);
    run_on(average.view_as(parameter), square.view_as(parameter));
    pack_signed(flat, scale, average, step, kElementsPerScale);
    pack_squares(flat_sq, scale_sq, square, step, kElementsPerScale);
  }

  using Kernel = void (*)(at::TensorList, at::TensorList, at::TensorList, at::TensorList,
                          at::TensorList, at::TensorList, double, double, double, double, double,
                          bool, bool, const std::optional<at::Tensor>&,
                          const std::optional<at::Tensor>&);
  static constexpr Kernel kDecoupled = at::_fused_adamw_, kPlain = at::_fused_adam_;

  AdamConfig config_;
  Kernel kernel_;
  StateType type_;
  size_t exp_avg_ = 0, exp_avg_sq_ = 0, step_ = 0, scale_ = 0, scale_sq_ = 0;
};

struct Adam final : AdamOptimizer {
  using Config = AdamConfig;
  Adam(const Config& config, const NamedTensors& parameters)
      : AdamOptimizer(config, parameters, /*decouples=*/false) {}
};

struct AdamW final : AdamOptimizer {
  using Config = AdamWConfig;
  AdamW(const Config& config, const NamedTensors& parameters)
      : AdamOptimizer(config, parameters, /*decouples=*/true, config.state) {}
};

REGISTER_OPTIMIZER("adam", Adam, "Adam (as torch.optim.Adam(fused=True))");
REGISTER_OPTIMIZER("adamw", AdamW,
                   "Adam with decoupled weight decay (as torch.optim.AdamW(fused=True))");

}  // namespace
}  // namespace lockstep::trainer
