#include "trainer/config/recompute.h"

#include "lockstep/error.h"
#include "trainer/checkpoint/chosen_weights.h"

namespace lockstep {

using trainer::Recompute;

Recompute ConfigValue<Recompute>::read(const ConfigNode& node, const std::string& path) {
  if (node.kind == ConfigNode::Kind::List)
    return {.names = ConfigValue<std::vector<std::string>>::read(node, path)};
  return {.all = read_choice(node, path, {"none", "blocks"}) == 1};
}

Json ConfigValue<Recompute>::dump(const Recompute& choice) {
  if (!choice.names.empty()) return choice.names;
  return choice.all ? "blocks" : "none";
}

Json ConfigValue<Recompute>::schema() {
  return {{"anyOf", Json::array({Json{{"type", "string"}, {"enum", {"none", "blocks"}}},
                                 ConfigValue<std::vector<std::string>>::schema()})}};
}

}  // namespace lockstep

namespace lockstep::trainer {

void set_recompute(Model& model, const Recompute& choice) {
  if (!choice.is_on()) return;
  std::vector<std::string> blocks;
  for (const auto& module : model.named_modules())
    if (module.value()->as<Block>()) blocks.push_back(module.key());
  if (blocks.empty() && model.has_backward())
    throw config_error(
        "train.recompute: the package has no blocks that can be recomputed: compile it with "
        "lockstep-compile --segments blocks");
  if (blocks.empty())
    throw config_error(
        "train.recompute: the model has no blocks (lockstep::Block) that can be recomputed; gpt, "
        "decoder, hf, hf_encoder, vit and resnet have blocks");
  verify_chosen("train.recompute", choice.names, blocks, "block");
  for (const auto& module : model.named_modules())
    if (auto* const block = module.value()->as<Block>())
      block->set_recomputes(choice.all || is_chosen(module.key(), choice.names));
}

}  // namespace lockstep::trainer
