// Verdicts on disk: when a file is believed, and when products are verified anew.
#include "kime/backend/cuda/blas_verdicts.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <thread>

#include "tests/cuda/driver/blas_rig.h"

namespace kime::test {

namespace {

namespace fs = std::filesystem;
using cuda::ProductVerdict;
using cuda::ProductVerdicts;

// A folder that is gone afterwards, and the notices about it.
class Folder {
 public:
  Folder() : path(fs::temp_directory_path() / ("kime_verdicts_" + std::to_string(::getpid()) + "_" + std::to_string(++made))) {
    fs::remove_all(path);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { fs::remove_all(path); }

  [[nodiscard]] std::shared_ptr<ProductVerdicts> verdicts() {
    return std::make_shared<ProductVerdicts>(path.string(), [this](const std::string& notice) { notices.push_back(notice); });
  }
  [[nodiscard]] std::vector<fs::path> files() const {
    return fs::exists(path) ? std::vector<fs::path>(fs::directory_iterator(path), {}) : std::vector<fs::path>();
  }
  [[nodiscard]] std::string read() const {
    REQUIRE(files().size() == 1);
    std::ifstream file(files()[0], std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void write(const std::string& text) const {
    REQUIRE(files().size() == 1);
    std::ofstream(files()[0], std::ios::binary) << text;
  }

  fs::path path;
  std::vector<std::string> notices;

 private:
  static inline int made = 0;
};

// A verdict by its number, where it must be made.
ProductVerdicts::Make making(std::uint64_t number) {
  return [=] { return ProductVerdict{cuda::BlasAlgo{{number, ~number, 3}}}; };
}
ProductVerdict made(std::uint64_t number) {
  return *making(number)();
}
const ProductVerdicts::Usable kAlways = [](const ProductVerdict&) { return true; };
const ProductVerdicts::Make kNever = []() -> Result<ProductVerdict> { return Error(ErrorKind::device, "made anew"); };

}  // namespace

TEST_CASE("blas verdicts: once made, they are known, in the process and to the next") {
  Folder folder;
  const auto verdict = GENERATE(made(7), ProductVerdict{});
  const auto verdicts = folder.verdicts();
  CHECK(get(verdicts->get("key\nof two lines", kAlways, [&] { return verdict; })) == verdict);
  CHECK(get(verdicts->get("key\nof two lines", kAlways, kNever)) == verdict);
  CHECK(verdicts->counts().made == 1);
  CHECK(verdicts->counts().stored == 1);
  const auto next = folder.verdicts();
  CHECK(get(next->get("key\nof two lines", kAlways, kNever)) == verdict);
  CHECK(next->counts().read == 1);
  CHECK(next->counts().made == 0);
  CHECK(get(next->get("another key", kAlways, making(8))) == made(8));
  CHECK(folder.files().size() == 2);
  CHECK(folder.notices.empty());
}

TEST_CASE("blas verdicts: without a folder there are no files") {
  ProductVerdicts verdicts;
  CHECK(get(verdicts.get("key", kAlways, making(1))) == made(1));
  CHECK(get(verdicts.get("key", kAlways, kNever)) == made(1));
  CHECK(verdicts.counts().stored == 0);
}

TEST_CASE("blas verdicts: any byte of a file that is changed, and any length, is found out, and the file is written anew") {
  Folder folder;
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  const std::string good = folder.read();
  std::vector<std::string> bad = {"", good + "x", good + good, good.substr(0, good.size() - 1), std::string(2U << 20, 'x')};
  for (std::size_t i = 0; i < good.size(); ++i) {
    bad.push_back(good);
    bad.back()[i] = static_cast<char>(bad.back()[i] ^ 1);
    bad.push_back(good.substr(0, i));
  }
  for (const auto& text : bad) {
    folder.write(text);
    folder.notices.clear();
    const auto verdicts = folder.verdicts();
    CHECK(get(verdicts->get("key", kAlways, making(1))) == made(1));
    CHECK(verdicts->counts().made == 1);
    CHECK(folder.notices.size() == 1);
    CHECK(folder.read() == good);
  }
}

TEST_CASE("blas verdicts: a file of another key under this one's name is not believed") {
  Folder folder;
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  std::string text = folder.read();
  Folder other;
  CHECK(get(other.verdicts()->get("kez", kAlways, making(2))) == made(2));
  folder.write(other.read());
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  REQUIRE(folder.notices.size() == 1);
  CHECK_THAT(folder.notices[0], Contains("it is damaged, or of other products; they are verified anew"));
  CHECK(folder.read() == text);
}

TEST_CASE("blas verdicts: one that is not usable any more is made anew, and trouble in asking is an error") {
  Folder folder;
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  const auto unusable = [](const ProductVerdict& verdict) { return verdict != made(1); };
  CHECK(get(folder.verdicts()->get("key", unusable, making(2))) == made(2));
  CHECK(get(folder.verdicts()->get("key", kAlways, kNever)) == made(2));
  const auto failing = [](const ProductVerdict&) -> Result<bool> { return Error(ErrorKind::device, "no answer"); };
  CHECK(why(folder.verdicts()->get("key", failing, making(3))) == "no answer");
}

TEST_CASE("blas verdicts: what fails is not kept") {
  Folder folder;
  const auto verdicts = folder.verdicts();
  CHECK(why(verdicts->get("key", kAlways, kNever)) == "made anew");
  CHECK(folder.files().empty());
  CHECK(get(verdicts->get("key", kAlways, making(1))) == made(1));
}

TEST_CASE("blas verdicts: a folder that cannot be made or written to costs a notice") {
  Folder folder;
  std::ofstream(folder.path) << "a file";
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  REQUIRE(folder.notices.size() == 1);
  CHECK_THAT(folder.notices[0], Contains("it cannot be written"));
  fs::remove(folder.path);
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  const auto file = folder.files()[0];
  fs::remove(file);
  fs::create_directory(file);  // neither to be read nor to be replaced
  std::ofstream(file / "inside") << "x";
  folder.notices.clear();
  CHECK(get(folder.verdicts()->get("key", kAlways, making(1))) == made(1));
  CHECK(folder.notices.size() == 2);
  CHECK(folder.files().size() == 1);  // no other file is left behind
}

TEST_CASE("blas verdicts: threads that ask for one key get what one of them makes") {
  ProductVerdicts verdicts;
  std::vector<std::thread> threads;
  std::vector<Result<ProductVerdict>> got(4, ProductVerdict{});
  for (std::size_t i = 0; i < got.size(); ++i) {
    threads.emplace_back([&, i] { got[i] = verdicts.get("key", kAlways, making(i)); });
  }
  for (auto& thread : threads) {
    thread.join();
  }
  CHECK(verdicts.counts().made == 1);
  for (const auto& each : got) {
    CHECK(get(each) == get(got[0]));
  }
}

TEST_CASE("blas: a later process takes a verdict from its file, warms the product and verifies nothing") {
  Folder folder;
  std::size_t first = 0;
  {
    BlasRig rig;
    const auto products = get(rig.open(folder.verdicts()));
    CHECK(BlasRig::index(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()))) == 0U);
    first = rig.matmuls();
  }
  CHECK(first > 5);
  BlasRig rig;
  const auto products = get(rig.open(folder.verdicts()));
  CHECK(BlasRig::index(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()))) == 0U);
  CHECK(rig.matmuls() == 5);  // each number of rows once
  CHECK(rig.blas.asked().empty());
  CHECK(folder.notices.empty());
}

TEST_CASE("blas: a verdict is of one device model, driver, library, workspace, shape and list of rows") {
  Folder folder;
  struct Change {
    FakeBlasConfig blas;
    FakeCudaConfig cuda;
    std::size_t workspace = 4096;
    std::vector<std::size_t> always = {1, 64, 200};
    cuda::ProductShape shape = small_shape();
    std::vector<std::size_t> rows = {32, 128};
  };
  std::vector<Change> changes(12);
  changes[1].blas.version = 120806;
  changes[2].cuda.version = 13000;
  changes[3].cuda.gpus[0].name = "Fake Other";
  changes[4].cuda.gpus[0].minor = 1;
  changes[5].cuda.gpus[0].multiprocessors = 5;
  changes[6].workspace = 8192;
  changes[7].always = {1, 64};
  changes[8].shape.ld_a = 64;
  changes[9].shape.out = cuda::ProductOut::added;
  changes[10].shape.type = cuda::ProductType::bf16;
  changes[11].rows = {32, 129};
  for (std::size_t i = 0; i < changes.size(); ++i) {
    INFO(i);
    const Change& change = changes[i];
    BlasRig rig(change.blas, change.cuda);
    rig.options = {change.workspace, change.always};
    for (const std::size_t expected : {i + 1, i + 1}) {
      const auto verdicts = folder.verdicts();
      const auto products = get(rig.open(verdicts));
      CHECK(get(products->choose(change.shape, change.rows, rig.stream->handle())) != nullptr);
      CHECK(folder.files().size() == expected);
    }
  }
  CHECK(folder.notices.empty());
}

TEST_CASE("blas: an algorithm from a file that the library does not take any more is replaced") {
  Folder folder;
  {
    BlasRig rig(algorithms({FakeAlgorithm(), FakeAlgorithm()}));
    const auto products = get(rig.open(folder.verdicts()));
    CHECK(BlasRig::index(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()))) == 0U);
  }
  std::vector<FakeAlgorithm> now(2);
  now[0].takes = [](std::size_t rows) { return rows != 128; };
  BlasRig rig(algorithms(now));
  const auto products = get(rig.open(folder.verdicts()));
  CHECK(BlasRig::index(get(products->choose(small_shape(), BlasRig::kRows, rig.stream->handle()))) == 1U);
  REQUIRE(folder.notices.size() == 1);
  CHECK_THAT(folder.notices[0], Contains("its algorithm is not taken any more; products are verified anew"));
}

}  // namespace kime::test
