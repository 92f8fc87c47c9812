// Arbitrary bytes are either an architecture whose sizes fit together or a Config error.
#include <cstdlib>

#include "lockstep/error.h"
#include "models/decoder/hf_config.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  const std::string sizes =
      R"("vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "sliding_window": 8)";
  return {
      R"({"model_type": "llama", )" + sizes +
          R"(, "rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5, "factor": 8,
             "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 16}})",
      R"({"model_type": "mistral", )" + sizes +
          R"(, "rope_theta": 1e4, "rope_scaling": {"type": "yarn", "factor": 4, "mscale": 1,
             "mscale_all_dim": 1, "original_max_position_embeddings": 16}})",
      R"({"model_type": "gemma3_text", "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", )" +
          sizes + R"(, "layer_types": ["sliding_attention", "full_attention"],
             "rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "default"},
                                 "sliding_attention": {"rope_theta": 1e4, "rope_type": "default"}}})",
      R"({"model_type": "gpt_neox", "rotary_pct": 0.25, "rotary_emb_base": 1e4, "hidden_act": "gelu", )" +
          sizes + "}",
      R"({"model_type": "qwen2_moe", "num_experts": 4, "num_experts_per_tok": 2, "use_sliding_window": true,
          "shared_expert_intermediate_size": 8, "output_router_logits": true, )" +
          sizes + "}",
      R"({"model_type": "qwen3_moe", "num_experts": 4, "num_experts_per_tok": 2,
          "moe_intermediate_size": 24, "use_sliding_window": true, "max_window_layers": 1, )" +
          sizes + "}"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto c = models::parse_hf_config({reinterpret_cast<const char*>(data), size}, "input");
    if (c.heads % c.kv_heads != 0 || c.rotary_dim > c.head_dim || c.layers > 10000) std::abort();
    if (!c.slides.empty() && c.slides.size() != static_cast<size_t>(c.layers)) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
