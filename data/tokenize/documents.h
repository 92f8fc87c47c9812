// Splits text files into documents, the separate texts for a language model. No LibTorch.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

enum class DocumentKind { File, Line, Paragraph };  // paragraphs are separated by empty lines

// Calls `use` for each document of `files`, plain or compressed with gzip or zstd, in order; skips
// empty ones. Lines end with \n or \r\n. Throws Config: no such file, or, with `utf8`, a binary
// format or invalid UTF-8 (names file and byte); Environment if a file cannot be read.
void for_each_document(const std::vector<std::filesystem::path>& files, DocumentKind kind,
                       bool utf8, const std::function<void(std::string_view)>& use);

}  // namespace lockstep::data
