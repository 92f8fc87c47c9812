// Images of a batch side by side, to look at.
#pragma once

#include "lockstep/batch.h"
#include "lockstep/image.h"

namespace lockstep::data {

// `images`: [B, 1 or 3, H, W] of any number type. The values from 0 to 1 (where all lie there;
// otherwise from the least to the largest) become black to white. `columns` images per row, at
// least
// 1. Throws Config for other shapes or no images.
RgbImage contact_sheet(const at::Tensor& images, int columns);

}  // namespace lockstep::data
