// Arbitrary bytes are either an encoder whose sizes fit together or a Config error.
#include <cstdlib>

#include "lockstep/error.h"
#include "models/encoder/encoder_config.h"
#include "tests/fuzz/seeds.h"

namespace lockstep {

std::vector<std::string> fuzz_seeds() {
  const std::string sizes =
      R"("vocab_size": 97, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
         "num_attention_heads": 4, "max_position_embeddings": 40, "pad_token_id": 1)";
  return {R"({"model_type": "bert", "architectures": ["BertForMaskedLM"], )" + sizes + "}",
          R"({"model_type": "roberta", "id2label": {"0": "a", "1": "b"}, "hidden_act": "gelu",
              "problem_type": "multi_label_classification", "classifier_dropout": 0.1, )" +
              sizes + "}",
          R"({"model_type": "modernbert", "num_labels": 3, "local_attention": 8,
              "classifier_pooling": "mean", "layer_types": ["full_attention", "sliding_attention"],
              "rope_parameters": {"full_attention": {"rope_theta": 1e5, "rope_type": "default"}}, )" +
              sizes + "}"};
}

}  // namespace lockstep

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace lockstep;
  try {
    const auto json = models::parse_hf_json({reinterpret_cast<const char*>(data), size}, "input");
    const auto c = models::parse_encoder_config(models::HfMap(json, "input"));
    if (c.width % c.heads != 0 || c.context < 1 || c.labels.empty()) std::abort();
    if (!c.slides.empty() && c.slides.size() != static_cast<size_t>(c.layers)) std::abort();
    if (c.pad_token >= c.vocab_size) std::abort();
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::Config) std::abort();
  }
  return 0;
}
