#include "data/tokenize/documents.h"

#include <fmt/format.h>

#include "core/printable.h"
#include "formats/file_kind.h"
#include "formats/unpack.h"
#include "lockstep/error.h"

namespace lockstep::data {

void for_each_document(const std::vector<std::filesystem::path>& files, DocumentKind kind,
                       bool utf8, const std::function<void(std::string_view)>& use) {
  for (const auto& path : files)
    formats::read_unpacked(path, [&](std::string_view rest, const std::string& name) {
      if (utf8) formats::refuse_other_kinds(rest, name, "text");
      if (utf8)
        if (const auto at = find_invalid_utf8(rest); at != rest.npos)
          throw config_error(fmt::format(
              "{}: byte {} is not UTF-8 text; convert the file, or use --bytes", name, at));
      const std::string_view end = kind == DocumentKind::Line ? "\n" : "\n\n";
      while (!rest.empty()) {
        const auto at = kind == DocumentKind::File ? rest.npos : rest.find(end);
        const auto document = rest.substr(0, at);
        if (document.find_first_not_of("\r\n") != document.npos) use(document);
        rest.remove_prefix(at == rest.npos ? rest.size() : at + end.size());
      }
      return true;
    });
}

}  // namespace lockstep::data
