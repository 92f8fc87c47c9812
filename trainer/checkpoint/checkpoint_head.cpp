#include "trainer/checkpoint/checkpoint_head.h"

#include <cmath>

namespace lockstep::trainer {

using HeadJson = nlohmann::ordered_json;

HeadJson describe_head(const CheckpointHead& head) {
  const auto& [position, world_size, early_stop, evaluation_is_due, evaluation, gradient_order,
               ema_updates, loss_scale, base] = head;
  HeadJson json = {{"step", position.step},
                   {"epoch", position.epoch},
                   {"samples", position.samples},
                   {"lanes", position.lanes},
                   {"world_size", world_size}};
  json["early_stop"] = {{"metric", early_stop.metric},
                        {"mode", early_stop.mode},
                        {"best", early_stop.best ? HeadJson(*early_stop.best) : HeadJson(nullptr)},
                        {"without_improvement", early_stop.without_improvement}};
  json["evaluation_is_due"] = evaluation_is_due;
  json["evaluation"] = HeadJson::object();
  for (const auto& [name, value] : evaluation) json["evaluation"][name] = value;
  json["gradient_order"] = gradient_order;
  json["ema_updates"] = ema_updates;
  if (loss_scale)
    json["loss_scale"] = {{"scale", loss_scale->scale}, {"good_steps", loss_scale->good_steps}};
  if (!base.path.empty()) json["base"] = describe_base(base);
  return json;
}

CheckpointHead read_head(const HeadJson& json) {
  CheckpointHead head;
  head.position = {json.at("step"), json.at("epoch"), json.at("samples"), json.at("lanes")};
  head.world_size = json.at("world_size");
  if (const auto found = json.find("early_stop"); found != json.end()) {
    auto& early_stop = head.early_stop;
    early_stop.metric = found->at("metric");
    early_stop.mode = found->at("mode");
    if (const auto& best = found->at("best"); best.is_number()) early_stop.best = best;
    early_stop.without_improvement = found->at("without_improvement");
  }
  head.evaluation_is_due = json.value("evaluation_is_due", false);
  if (const auto found = json.find("evaluation"); found != json.end())
    for (const auto& [name, value] : found->items())  // JSON has no NaN
      head.evaluation[name] = value.is_number() ? value.get<double>() : std::nan("");
  head.gradient_order = json.value("gradient_order", std::vector<std::string>{});
  head.ema_updates = json.value("ema_updates", int64_t{0});
  if (const auto found = json.find("loss_scale"); found != json.end())
    head.loss_scale = {found->at("scale"), found->at("good_steps")};
  if (const auto found = json.find("base"); found != json.end()) head.base = parse_base(*found);
  return head;
}

}  // namespace lockstep::trainer
