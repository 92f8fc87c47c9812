#include "data/tokenize/documents.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/printable.h"
#include "data/mapped_file.h"

namespace lockstep {

void for_each_document(const std::vector<std::filesystem::path>& files, DocumentKind kind,
                       bool utf8, const std::function<void(std::string_view)>& use) {
  for (const auto& path : files) {
    const MappedFile file(path);
    std::string_view rest(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (utf8)
      if (const auto at = find_invalid_utf8(rest); at != rest.npos) {
        file.verify_unchanged();
        throw config_error(fmt::format(
            "{}: byte {} is no UTF-8 text; convert the file, or use --bytes", file.name(), at));
      }
    const std::string_view end = kind == DocumentKind::Line ? "\n" : "\n\n";
    while (!rest.empty()) {
      const auto at = kind == DocumentKind::File ? rest.npos : rest.find(end);
      const auto document = rest.substr(0, at);
      if (document.find_first_not_of("\r\n") != document.npos) use(document);
      rest.remove_prefix(at == rest.npos ? rest.size() : at + end.size());
    }
    file.verify_unchanged();
  }
}

}  // namespace lockstep
