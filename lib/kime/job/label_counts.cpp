#include "kime/job/label_counts.h"

#include <string>

#include "kime/base/answers.h"

namespace kime {

void LabelCounts::add(const Record& record, std::optional<bool> is_right) {
  if (is_right) {
    ++labelled.at(record.qtype);
    right.at(record.qtype) += *is_right ? 1 : 0;
  } else if (record.labelled) {
    ++unusable;
  }
}

nlohmann::json to_json(const LabelCounts& counts) {
  nlohmann::json document{{"unusable", counts.unusable}};
  for (std::size_t type = 0; type < counts.labelled.size(); ++type) {
    if (counts.labelled[type] > 0) {
      const double accuracy = static_cast<double>(counts.right[type]) / static_cast<double>(counts.labelled[type]);
      document[std::string(kTypeNames[type])] = {
          {"labelled", counts.labelled[type]}, {"right", counts.right[type]}, {"accuracy", accuracy}};
    }
  }
  return document;
}

}  // namespace kime
