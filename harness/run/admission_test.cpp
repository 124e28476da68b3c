#include "harness/run/admission.h"

#include <gtest/gtest.h>

#include <memory>

namespace attnlab {
namespace {

TEST(OwnBytes, AreWhatIsNeededBesideTheInputs) {
  CompetitorRun run{};
  run.record.point.problem = {.seqlen_q = 8, .seqlen_k = 8, .head_dim = 16};
  run.record.memory = Memory{.peak_bytes = 3 * 8 * 16 * 4 + 1000};  // q, k and v of f32
  EXPECT_EQ(own_bytes(run), 1000u);
}

TEST(OwnBytes, OfAPeerAreItsInputsAndWhatItSays) {
  PeerProcess process;
  CompetitorRun run{};
  run.record.point.problem = {.seqlen_q = 8, .seqlen_k = 8, .head_dim = 16};
  run.peer = std::make_unique<LibraryPeer>(process, "torch:eager", Device());
  run.record.peer.emplace();
  EXPECT_EQ(own_bytes(run), 3u * 8 * 16 * 4);
  run.record.peer->peak_bytes = 4096;
  EXPECT_EQ(own_bytes(run), 3u * 8 * 16 * 4 + 4096);
}

}  // namespace
}  // namespace attnlab
