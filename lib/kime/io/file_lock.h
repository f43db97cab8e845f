// One process a file.
#pragma once

#include <string>

#include "kime/base/error.h"

namespace kime {

/// Takes the file for this process, until it closes any descriptor of it or ends, however that comes. False where another process has it.
/// The lock is fcntl's, of which the system says who holds it. Errors: `input`, naming the file `name`: its file system knows no locks.
Result<bool> lock_file(int fd, const std::string& name);

/// Errors: `input`, where another process has the file: who it is, and that it writes `output`.
Status check_unlocked(int fd, const std::string& output);

}  // namespace kime
