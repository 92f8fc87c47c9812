// Headers that the examples in public headers need in addition to their own header.
#pragma once

#ifndef LOCKSTEP_WITHOUT_TORCH
#include <ATen/ATen.h>
#include <torch/nn/modules/linear.h>
#endif

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <span>
#include <string>

#include "lockstep/image_transform.h"
#include "lockstep/rank_env.h"
#include "lockstep/sink.h"
#include "lockstep/tracker.h"
#ifndef LOCKSTEP_WITHOUT_TORCH
#include "lockstep/dataset.h"
#include "lockstep/model.h"
#include "lockstep/optimizer.h"
#endif
