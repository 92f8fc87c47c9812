// The interface of models that generate text, token by token. Shapes: B sequences, T tokens of a
// pass, S tokens of a sequence so far, H heads of keys, D elements of a head, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lockstep::models {

// The keys and values of all layers for the tokens that a batch of sequences has so far. A sequence
// fills its row from the left, so sequences of different lengths need no padding between tokens.
class KeyValueCache {
 public:
  // `capacity`: the maximum number of tokens of a sequence.
  KeyValueCache(int64_t sequences, int64_t capacity);

  const std::vector<int64_t>& lengths() const { return lengths_; }

  // Begins a pass over tokens [B, T], of which the first counts[b] are of sequence b, and the rest
  // is ignored. Throws Bug if they exceed the capacity.
  void begin(const std::vector<int64_t>& counts, int64_t tokens, at::Device device);

  // Of the pass: the positions of its tokens in their sequences, [B, T].
  const at::Tensor& positions() const { return positions_; }
  // The number of positions that the pass reads: mask() has as many columns.
  int64_t span() const { return span_; }
  // Whether the sequences had no tokens before: attention is then causal over the pass alone.
  bool is_first() const { return is_first_; }
  // Which positions each token sees: bool [B, 1, T, span()]. `window`: at most this many; 0: all.
  at::Tensor mask(int64_t window) const;

  // Adds keys and values [B, H, T, D] of the pass to those of layer `layer`.
  struct KeysAndValues {
    at::Tensor keys, values;  // [B, H, span(), D]
  };
  KeysAndValues add(size_t layer, const at::Tensor& keys, const at::Tensor& values);

  // Ends the pass. Returns the row of x [B, T, C] of each sequence's last token, [B, C].
  at::Tensor end(const at::Tensor& x);

  // Keeps these sequences only, in this order.
  void keep(const std::vector<int64_t>& rows);

 private:
  int64_t capacity_, span_ = 0;
  std::vector<int64_t> lengths_, counts_;
  bool is_first_ = true;
  at::Tensor positions_;
  std::vector<KeysAndValues> layers_;  // [B, H, capacity, D]
};

// The part of one layer; without a cache, the layer sees the tokens of the pass only.
struct LayerCache {
  KeyValueCache* cache = nullptr;
  size_t layer = 0;

  // The keys and values that the pass sees, with those of earlier passes.
  KeyValueCache::KeysAndValues add(const at::Tensor& keys, const at::Tensor& values) const;
};

class LanguageModel {
 public:
  virtual ~LanguageModel() = default;

  // Processes the next tokens int64 [B, T] of each sequence, as described for
  // KeyValueCache::begin(), and returns the logits [B, V] of the token that follows. Call it in
  // evaluation mode.
  virtual at::Tensor next_logits(const at::Tensor& tokens, const std::vector<int64_t>& counts,
                                 KeyValueCache& cache) = 0;

  // The maximum number of tokens that it processes, and the number of tokens that it knows.
  virtual int64_t context_size() const = 0;
  virtual int64_t vocabulary_size() const = 0;
};

}  // namespace lockstep::models
