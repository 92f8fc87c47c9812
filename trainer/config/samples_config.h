// `train.samples`: texts that the model generates while it is trained.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/config/period.h"
#include "lockstep/config_fields.h"

namespace lockstep::trainer {

struct SamplesConfig {
  std::vector<std::string> prompts;
  Period every{1, Period::Unit::Epochs};
  int64_t max_tokens = 64;
  double temperature = 0;
  std::optional<int64_t> top_k;
  std::optional<double> top_p, min_p, repetition_penalty;
  std::vector<std::string> stop;
  std::optional<std::string> tokenizer;
};

template <class V>
void fields(V& v, SamplesConfig& c) {
  v("prompts", c.prompts,
    "texts that a language model continues; the results are recorded as the table samples (empty: "
    "none)");
  v("every", c.every, "interval; they are also generated at the end",
    needs("train.samples.prompts"));
  v("max_tokens", c.max_tokens, "maximum length of a text, in tokens", at_least(1),
    at_most(1 << 20), needs("train.samples.prompts"));
  v("temperature", c.temperature,
    "randomness of the tokens, e.g. 0.8; 0: the most likely token each time", at_least(0),
    needs("train.samples.prompts"));
  v("top_k", c.top_k, "sample from this many of the most likely tokens; default: all", at_least(1),
    needs("train.samples.temperature"));
  v("top_p", c.top_p,
    "sample from the most likely tokens whose probabilities together reach this; default: all",
    above(0), at_most(1), needs("train.samples.temperature"));
  v("min_p", c.min_p,
    "sample from the tokens with at least this share of the largest probability; default: all",
    above(0), at_most(1), needs("train.samples.temperature"));
  v("repetition_penalty", c.repetition_penalty,
    "makes the tokens of prompt and text less likely, e.g. 1.2; 1: no penalty", above(0),
    at_most(1e6), needs("train.samples.prompts"));
  v("stop", c.stop, "strings that end a text", needs("train.samples.prompts"));
  v("tokenizer", c.tokenizer,
    "a tokenizer.json, a directory with one, or bytes; default: that of model.path",
    needs("train.samples.prompts"));
}

}  // namespace lockstep::trainer
