#include "kime/io/output_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <vector>

#include "temp_folder.h"

using kime::JobFields;
using kime::JobState;
using kime::OutputFile;
using kime::OutputFileOptions;

namespace fs = std::filesystem;

namespace {

const JobFields kJob{{"precision", "f32"}};

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::string refusal(const OutputFileOptions& options, std::vector<int> inputs = {}) {
  const auto file = OutputFile::open(options, inputs);
  return file ? "" : file.error().text();
}

void lay(const TempFolder& folder, const std::string& name, std::string_view bytes) {
  static_cast<void>(folder.write(name, bytes));
}

void put(const OutputFile& file, std::string_view text) {
  REQUIRE(write(file.fd(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

/// An output of a job, begun or gone on with.
OutputFile started(const OutputFileOptions& options) {
  auto file = OutputFile::open(options, {});
  REQUIRE(file);
  REQUIRE(file->set_job(kJob));
  REQUIRE(file->start());
  return *std::move(file);
}

struct Names {
  explicit Names(const TempFolder& folder, const std::string& name = "out")
      : file(folder.path(name)), partial(file + ".partial"), journal(file + ".journal") {}
  [[nodiscard]] OutputFileOptions fresh() const { return {.path = file, .kime = "1"}; }
  [[nodiscard]] OutputFileOptions resume() const { return {.path = file, .resume = true, .kime = "1"}; }
  [[nodiscard]] OutputFileOptions force() const { return {.path = file, .force = true, .kime = "1"}; }
  /// What is there: "F", "P" and "J" for the output, the partial one and the journal, "?" for anything else.
  [[nodiscard]] std::string there() const {
    std::string seen;
    for (const auto& entry : fs::directory_iterator(fs::path(file).parent_path())) {
      const std::string path = entry.path().string();
      seen += path == file ? "F" : path == partial ? "P" : path == journal ? "J" : "?";
    }
    std::sort(seen.begin(), seen.end());
    return seen;
  }
  /// A job that has saved "one\n", of which more was written, and was killed.
  void leave() const {
    auto output = started(fresh());
    put(output, "one\n");
    REQUIRE(output.save({.output = 4, .input = {.file = 1, .place = {30, 3, false}}, .scored = 1}));
    put(output, "two\nthr");
  }

  std::string file;
  std::string partial;
  std::string journal;
};

}  // namespace

TEST_CASE("an output gets its name when it is whole, and its journal goes") {
  const TempFolder folder;
  const Names names(folder);
  auto output = started(names.fresh());
  CHECK_FALSE(output.found());
  CHECK(names.there() == "JP");
  put(output, "one\n");
  REQUIRE(output.save({.output = 4}));
  CHECK(names.there() == "JP");
  put(output, "two\n");
  REQUIRE(output.finish({.output = 8}));
  CHECK(names.there() == "F");
  CHECK(content(names.file) == "one\ntwo\n");
}

TEST_CASE("an output that never starts leaves nothing behind") {
  const TempFolder folder;
  const Names names(folder);
  REQUIRE(OutputFile::open(names.fresh(), {}));
  REQUIRE(OutputFile::open(names.resume(), {}));
  CHECK(names.there().empty());
}

TEST_CASE("a job goes on where the journal says, and what was written past that is cut off") {
  const TempFolder folder;
  const Names names(folder);
  names.leave();
  CHECK(content(names.partial) == "one\ntwo\nthr");
  auto output = started(names.resume());
  REQUIRE(output.found());
  CHECK(output.found()->state.scored == 1);
  CHECK(output.found()->state.input == kime::InputPlace{.file = 1, .place = {30, 3, false}});
  CHECK(content(names.partial) == "one\n");
  put(output, "2\n");
  REQUIRE(output.finish({.output = 6}));
  CHECK(content(names.file) == "one\n2\n");
  CHECK(names.there() == "F");
}

TEST_CASE("with nothing to go on with, resume begins") {
  const TempFolder folder;
  const Names names(folder);
  auto output = started(names.resume());
  CHECK_FALSE(output.found());
  REQUIRE(output.finish({}));
  CHECK(names.there() == "F");
}

TEST_CASE("what is there is not written over") {
  const TempFolder folder;
  const Names names(folder);
  lay(folder, "out", "old");
  CHECK(refusal(names.fresh()) == names.file + ": is there already; --force replaces it");
  CHECK(refusal(names.resume()) == names.file + ": is there already, and there is nothing to go on with; --force replaces it");
  CHECK(names.there() == "F");
  CHECK(refusal(names.force()).empty());
  {
    auto output = started(names.force());
    put(output, "new");
    CHECK(content(names.file) == "old");  // until the end
    REQUIRE(output.finish({.output = 3}));
  }
  CHECK(content(names.file) == "new");

  fs::remove(names.file);
  names.leave();
  CHECK(refusal(names.fresh()) == names.partial + ": holds a job that did not end; --resume goes on with it, --force begins anew");
  lay(folder, "out", "a stranger's");
  CHECK(refusal(names.resume()) ==
        names.file + ": is there already, beside a job that did not end and may not replace it; --force replaces it");
  CHECK(content(names.file) == "a stranger's");
  CHECK(content(names.partial) == "one\ntwo\nthr");
}

TEST_CASE("force begins anew over what a job has left, and a job that may replace goes on so") {
  const TempFolder folder;
  const Names names(folder);
  names.leave();
  lay(folder, "out", "old");
  {
    auto output = started(names.force());
    CHECK_FALSE(output.found());
    CHECK(content(names.partial).empty());
    put(output, "x\n");
    REQUIRE(output.save({.output = 2}));
  }
  auto output = started(names.resume());
  REQUIRE(output.finish({.output = 2}));
  CHECK(content(names.file) == "x\n");
}

TEST_CASE("an output that comes to be there meanwhile stays, and the new one is kept") {
  const TempFolder folder;
  const Names names(folder);
  {
    auto output = started(names.fresh());
    put(output, "mine");
    lay(folder, "out", "theirs");
    const auto finished = output.finish({.output = 4});
    REQUIRE_FALSE(finished);
    CHECK(finished.error().text().find(names.file + ": has come to be there while the job ran") == 0);
  }
  CHECK(content(names.file) == "theirs");
  auto again = started({.path = names.file, .resume = true, .force = true, .kime = "1"});
  REQUIRE(again.found());
  CHECK(again.found()->state.complete);
  REQUIRE(again.finish(again.found()->state));
  CHECK(content(names.file) == "mine");
  CHECK(names.there() == "F");
}

TEST_CASE("another job is refused, and says what differs") {
  const TempFolder folder;
  const Names names(folder);
  names.leave();
  {
    auto output = OutputFile::open(names.resume(), {});
    REQUIRE(output);
    const auto refused = output->set_job({{"precision", "bf16"}});
    REQUIRE_FALSE(refused);
    CHECK(refused.error().text() == names.file +
                                        ": cannot go on as another job than it was begun as:\n  precision: was f32, is bf16\n"
                                        "(--force without --resume begins anew)");
  }
  CHECK(content(names.partial) == "one\ntwo\nthr");
  CHECK(names.there() == "JP");
}

TEST_CASE("a partial output that is not what the journal speaks of is refused and left alone") {
  const TempFolder folder;
  const Names names(folder);
  const auto refused = [&names](std::string_view why) {
    const std::string text = refusal(names.resume());
    INFO(text);
    CHECK(text.find(why) != std::string::npos);
    CHECK(text.find(names.file) == 0);
  };
  names.leave();
  lay(folder, "out.partial", "one");
  refused("has 3 bytes, but " + names.journal + " speaks of 4");
  lay(folder, "out.partial", "ONE\nmore");
  refused("before byte 4 it is not what " + names.journal + " speaks of: it has been changed");
  CHECK(content(names.partial) == "ONE\nmore");
  fs::remove(names.partial);
  refused("has 0 bytes, but");
  CHECK(names.there() == "J");
  lay(folder, "out.journal", "garbage\n");
  refused("is no journal of kime's, or damaged");
  lay(folder, "out.journal", "");
  refused("is no journal of kime's, or damaged");
  lay(folder, "out.journal", std::string(17U << 20U, 'x'));
  refused("is no journal of kime's: it has more than");
  fs::remove(names.journal);
  lay(folder, "out.partial", "one\n");
  refused("is missing, which says how far it has come");
  CHECK(content(names.partial) == "one\n");
  fs::remove(names.partial);
  fs::create_directory(names.partial);
  refused("Is a directory");
}

TEST_CASE("an output that is an input is refused whatever its name") {
  const TempFolder folder;
  const Names names(folder);
  const std::string input = folder.write("in", "{}");
  const int fd = open(input.c_str(), O_RDONLY | O_CLOEXEC);
  REQUIRE(fd >= 0);
  fs::create_hard_link(input, names.file);
  CHECK(refusal(names.force(), {fd}) == names.file + ": is one of the inputs, and would be written over");
  fs::remove(names.file);
  fs::create_symlink(input, names.file);
  CHECK(refusal(names.force(), {fd}) == input + ": is one of the inputs, and would be written over");
  fs::remove(names.file);
  fs::create_hard_link(input, names.partial);
  CHECK(refusal(names.force(), {fd}) == names.partial + ": is one of the inputs, and would be written over");
  fs::rename(names.partial, names.journal);
  CHECK(refusal(names.force(), {fd}) == names.journal + ": is one of the inputs, and would be written over");
  close(fd);
  CHECK(content(input) == "{}");
}

TEST_CASE("a link is followed, and stays") {
  const TempFolder folder;
  const Names names(folder);
  const std::string link = folder.path("link");
  fs::create_symlink("out", link);
  auto output = started({.path = link, .kime = "1"});
  put(output, "x");
  REQUIRE(output.finish({.output = 1}));
  CHECK(content(names.file) == "x");
  CHECK(fs::is_symlink(link));
}

TEST_CASE("what can be no output is named") {
  const TempFolder folder;
  CHECK(refusal({.path = "/dev/null", .force = true, .kime = "1"}) == "/dev/null: is a device or a pipe; an output is a regular file");
  CHECK(refusal({.path = folder.path("")}).find(": is a folder; an output is a regular file") != std::string::npos);
  CHECK(refusal({.path = folder.path("no/out")}) == folder.path("no/out.partial") + ": No such file or directory");
}

TEST_CASE("one process an output, and the other one is told who it is") {
  const TempFolder folder;
  const Names names(folder);
  auto output = started(names.fresh());
  const auto in_child = [](const std::function<bool()>& check) {
    const pid_t child = fork();
    if (child == 0) {
      _exit(check() ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return status == 0;
  };
  const std::string told = fmt::format("{}: process {} writes it; one job an output", names.file, getpid());
  CHECK(in_child([&] { return refusal(names.fresh()) == told; }));
  CHECK(in_child([&] { return refusal(names.resume()) == told; }));
  CHECK(in_child([&] { return refusal(names.force()) == told; }));
  CHECK(names.there() == "JP");
  REQUIRE(output.finish({}));
  // Until it has let go, also of the file that has its name already.
  CHECK(in_child([&] { return refusal(names.force()) == told; }));
  CHECK(names.there() == "F");
}
