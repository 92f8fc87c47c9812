// What most LibTorch files of ours include, compiled once.
#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/nn/module.h>

#include <nlohmann/json.hpp>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
