#include "data/tokenize/documents.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::data {
namespace {

struct DocumentEnd {
  size_t at, next;  // the end of the document, and the begin of the next one
};

DocumentEnd end_of_document(std::string_view text, DocumentKind kind) {
  const auto next_line = [&](size_t from) {
    return kind == DocumentKind::File ? text.npos : text.find('\n', from);
  };
  for (auto at = next_line(0); at != text.npos; at = next_line(at + 1)) {
    if (kind == DocumentKind::Line) return {at, at + 1};
    for (const std::string_view empty_line : {"\n", "\r\n"})
      if (text.substr(at + 1).starts_with(empty_line)) return {at, at + 1 + empty_line.size()};
  }
  return {text.size(), text.size()};
}

}  // namespace

void for_each_document(const std::vector<std::filesystem::path>& files, DocumentKind kind,
                       bool utf8, const std::function<void(std::string_view)>& use) {
  for (const auto& path : files)
    formats::read_unpacked(path, [&](std::string_view rest, const std::string& name) {
      if (utf8) formats::refuse_other_kinds(rest, name, "text");
      if (utf8)
        if (const auto at = find_invalid_utf8(rest); at != rest.npos)
          throw config_error(fmt::format(
              "{}: byte {} is not UTF-8 text; convert the file, or use --bytes", name, at));
      while (!rest.empty()) {
        const auto [at, next] = end_of_document(rest, kind);
        auto document = rest.substr(0, at);
        if (kind != DocumentKind::File && document.ends_with('\r')) document.remove_suffix(1);
        if (document.find_first_not_of("\r\n") != document.npos) use(document);
        rest.remove_prefix(next);
      }
      return true;
    });
}

}  // namespace lockstep::data
