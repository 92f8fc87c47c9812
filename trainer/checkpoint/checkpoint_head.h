// The metadata of a checkpoint: the same on every rank.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "trainer/checkpoint/base_weights.h"
#include "trainer/state/early_stop.h"
#include "trainer/state/loss_scaler.h"
#include "trainer/state/position.h"

namespace lockstep::trainer {

struct CheckpointHead {
  Position position;
  int world_size = 1;
  EarlyStopState early_stop;
  // The run ended before the evaluation that was due at this step.
  bool evaluation_is_due = false;
  // The evaluation at this step; empty if there was none.
  std::map<std::string, double> evaluation;
  // DataParallel::gradient_order()
  std::vector<std::string> gradient_order;
  // WeightAverage::num_updates(); 0 without train.ema
  int64_t ema_updates = 0;
  // Of a run in fp16.
  std::optional<LossScaleState> loss_scale;
  // What the checkpoint refers to instead of containing it.
  BaseWeights base;

  bool operator==(const CheckpointHead&) const = default;
};

nlohmann::ordered_json describe_head(const CheckpointHead& head);

// The inverse. Fields that older checkpoints lack keep their defaults.
CheckpointHead read_head(const nlohmann::ordered_json& json);

}  // namespace lockstep::trainer
