// Images of a batch in a grid.
#pragma once

#include "lockstep/batch.h"
#include "lockstep/image.h"

namespace lockstep::data {

// `images`: [B, 1 or 3, H, W] of any number type. Values from 0 to 1 (or, if some are
// outside, from the minimum to the maximum) become black to white. `columns` images per row, at
// least 1. Throws Config for other shapes or no images.
RgbImage contact_sheet(const at::Tensor& images, int columns);

}  // namespace lockstep::data
