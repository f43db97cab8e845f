// The whole way of a batch through the runtime.
#include "tests/runtime/rig.h"

namespace kime::test {

TEST_CASE("a batch goes through a stream and its scores come back") {
  const bool async = GENERATE(false, true);
  Rig rig(fake(2, async));
  const FakeCheckpoint checkpoint(3);
  const Stream first = rig.stream(0);
  const Context root = rig.root(checkpoint, first);
  const auto routine = get(rig.runtime.link(rig.child(root, first), rig.code(checkpoint)));
  for (std::uint32_t i = 0; i < 20; ++i) {
    Work work(i);
    ok(work.schedule(rig.runtime, routine));
    ok(rig.runtime.sync(get(rig.runtime.all_work(routine.context))));
    CHECK(work.right(checkpoint.seed()));
    work.forget();
    CHECK_FALSE(work.right(checkpoint.seed()));
  }
}

}  // namespace kime::test
