// `tracking.media`: what evaluations record besides numbers.
#pragma once

#include <cstdint>

#include "lockstep/config_fields.h"

namespace lockstep::tracking {

struct MediaConfig {
  int64_t every = 1;
  bool confusion = false;
  bool histograms = false;
  int64_t worst_samples = 0;
};

template <class V>
void fields(V& v, MediaConfig& c) {
  v("every", c.every, "record them in every Nth evaluation", at_least(1));
  v("confusion", c.confusion,
    "for a classifier: the tables eval/confusion (actual, predicted, count) and eval/classes "
    "(precision, recall and F1 of each class), and their means over the classes as eval/precision, "
    "eval/recall and eval/f1");
  v("histograms", c.histograms,
    "histograms of each trained parameter (parameters/...) and its gradient in the last step "
    "(gradients/...)");
  v("worst_samples", c.worst_samples,
    "number of samples with the largest loss to record, as the table eval/worst, and as images if "
    "the samples have a field 'image'",
    at_least(0), at_most(1000));
}

}  // namespace lockstep::tracking
