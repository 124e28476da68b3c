#include "harness/run/ending.h"

#include <exception>
#include <new>

#include "harness/run/context.h"
#include "harness/run/peer_process.h"
#include "kernels/api/runtime.h"

namespace attnlab {

std::optional<Ending> ending_of(const std::function<void()>& step) try {
  step();
  return std::nullopt;
} catch (const Ending& ending) {
  return ending;
} catch (const Interrupted&) {
  throw;
} catch (const DeviceLost&) {
  throw;
} catch (const PeerError& error) {
  switch (error.kind()) {
    case PeerError::Kind::unsupported: return Ending{Status::unsupported, error.what()};
    case PeerError::Kind::out_of_memory: return Ending{Status::out_of_memory, error.what()};
    case PeerError::Kind::error:
    case PeerError::Kind::no_access:
    case PeerError::Kind::lost: break;
  }
  return Ending{Status::invalid, error.what()};
} catch (const std::bad_alloc&) {
  return Ending{Status::out_of_memory, "an allocation failed"};
} catch (const std::exception& error) {
  return Ending{Status::invalid, error.what()};
} catch (...) {
  return Ending{Status::invalid, "threw something that is not a std::exception"};
}

}  // namespace attnlab
