// Arbitrary bytes are either the settings of adapters that are in range or a Config error.
#include <cstdlib>

#include "lockstep/error.h"
#include "models/decoder/lora_config.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  return {R"({"peft_type": "LORA", "r": 4, "lora_alpha": 8, "lora_dropout": 0.1, "bias": "none",
              "target_modules": ["q_proj", "v_proj"], "modules_to_save": ["lm_head"],
              "rank_pattern": {}, "use_rslora": true, "use_dora": false})",
          R"({"peft_type": "LORA", "target_modules": "all-linear", "use_dora": true})",
          models::adapter_config_text({.rank = 2}, {"k_proj"}, "base")};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto config =
        models::parse_adapter_config({reinterpret_cast<const char*>(data), size}, "input");
    if (config.rank < 1 || config.alpha <= 0 || config.dropout < 0 || config.dropout >= 1)
      std::abort();
    models::parse_adapter_config(models::adapter_config_text(config, {"q_proj"}, "base"),
                                 "the same settings");
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
