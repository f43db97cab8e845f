// Where a record stands.
#pragma once

#include <cstdint>
#include <string_view>

#include "kime/io/journal.h"

namespace kime {

struct Where {
  std::uint64_t line = 0;  ///< From 1, in its file.
  std::string_view file;   ///< Its name as a JSON string where there are several files, else empty; lives as long as the Intake.
  InputPlace after;        ///< Where a job goes on that has this record behind it.
};

}  // namespace kime
