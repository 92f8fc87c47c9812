// The classes of a dataset of images: numbers, or names in the order of their numbers.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep::data {

class ClassNames {
 public:
  // `names` may be empty. Throws Config if a name occurs twice. `dataset`: for messages.
  ClassNames(std::string dataset, const std::vector<std::string>& names);

  // The class of a name, or of a number in decimal. `where`: for messages. Throws Config.
  int64_t class_from(std::string_view text, const std::string& where) const;
  // Returns `label`. Throws Config if it is negative, or not below the number of names.
  int64_t verified(int64_t label, const std::string& where) const;

 private:
  std::string dataset_;
  std::vector<std::string> names_;
  std::map<std::string, int64_t> numbers_;  // of the names
};

}  // namespace lockstep::data
