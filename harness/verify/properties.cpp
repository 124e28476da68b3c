#include "harness/verify/plan.h"
namespace attnlab::verify {
void plan_properties(Plan&) {}
}  // namespace attnlab::verify
