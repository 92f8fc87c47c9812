// Converts Arrow errors to Lockstep errors.
#pragma once

#include <arrow/api.h>
#include <fmt/format.h>
#include <parquet/exception.h>

#include <exception>
#include <new>
#include <string>
#include <string_view>

#include "core/printable.h"
#include "lockstep/error.h"

namespace lockstep::formats {

// The first line, escaped: Arrow messages can contain names from the file.
inline std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')), 200);
}

// Throws an Error if `status` is not ok. `format`: of the file, for messages.
inline void accept(const arrow::Status& status, const std::string& name,
                   const char* format = "Parquet") {
  if (status.ok()) return;
  if (status.IsOutOfMemory()) throw environment_error(name + ": out of memory");
  const auto text = first_line(status.message());
  // Arrow also reports corrupt data as I/O errors; only errors of the system have an errno.
  const auto& detail = status.detail();
  if (detail && std::string_view(detail->type_id()) == "arrow::ErrnoDetail")
    throw environment_error(
        fmt::format("{}: cannot be read: {}", name, first_line(detail->ToString())));
  throw config_error(fmt::format("{}: not a usable {} file: {}", name, format, text));
}

template <class Act>
auto guarded(const std::string& name, const Act& act, const char* format = "Parquet") {
  try {
    return act();
  } catch (const Error&) {
    throw;
  } catch (const parquet::ParquetStatusException& error) {
    accept(error.status(), name, format);
    throw;
  } catch (const std::bad_alloc&) {
    throw environment_error(name + ": out of memory");
  } catch (const std::exception& error) {
    throw config_error(
        fmt::format("{}: not a usable {} file: {}", name, format, first_line(error.what())));
  }
}

}  // namespace lockstep::formats
