#include "kernels/cpu/roles.h"

#include "kernels/shared/philox.h"

namespace attnlab::cpu {

Ring::Ring(const Layout& layout, const Probe& probe) : layout_(layout) {
  for (i32 s = 0; s < layout.stages; ++s) {
    at(s).full = Barrier(layout.writers);
    at(s).empty = Barrier(layout.readers);
  }
  if (probe.fault != Fault::none && probe.ring == layout.name) {
    fault_ = probe.fault;
    fault_fill_ = probe.fill;
  }
}

void Ring::fail(FaultKind kind, i32 stage, const std::string& what) const {
  throw RoleFault(
      kind, "ring " + std::string(layout_.name) + ", stage " + std::to_string(stage) + ": " + what);
}

void Ring::expect_drained() const {
  for (i32 s = 0; s < layout_.stages; ++s) {
    const Stage& stage = stages_[static_cast<std::size_t>(s)];
    if (stage.fill < 0 || (stage.written == layout_.writers && stage.read == layout_.readers)) {
      continue;
    }
    fail(FaultKind::unread, s,
         "fill " + std::to_string(stage.fill) + " was written by " + std::to_string(stage.written) +
             " of " + std::to_string(layout_.writers) + " and read by " +
             std::to_string(stage.read) + " of " + std::to_string(layout_.readers));
  }
}

i32 RingWriter::begin() {
  Ring::Stage& stage = ring_.at(state_.stage);
  const auto refuse = [&](const char* why) {
    ring_.fail(FaultKind::overwrite, state_.stage,
               "writer " + std::to_string(writer_) + " begins fill " + std::to_string(fill_) + why +
                   std::to_string(stage.fill));
  };
  if (stage.reading > 0) refuse(" while a reader still holds fill ");
  if (stage.fill != fill_) {  // the first writer of this fill
    if (stage.fill >= 0 && stage.read < ring_.layout_.readers) {
      refuse(" before everybody has read fill ");
    }
    stage.fill = fill_;
    stage.written = 0;
    stage.read = 0;
  }
  return state_.stage;
}

void RingWriter::arrive_full() {
  Ring::Stage& stage = ring_.at(state_.stage);
  ++stage.written;
  if (!ring_.breaks(Fault::missing_arrive, writer_, fill_)) stage.full.arrive();
  state_.advance(ring_.layout_.stages);
  ++fill_;
}

RingReader::RingReader(Ring& ring, i32 reader)
    : ring_(ring), reader_(reader), stages_(ring.layout_.stages) {
  if (reader == 0 && ring.fault_ == Fault::wrong_phase) state_ = producer_start();
  if (reader == 0 && ring.fault_ == Fault::one_stage_fewer) --stages_;
}

i32 RingReader::begin() {
  Ring::Stage& stage = ring_.at(state_.stage);
  if (stage.fill != fill_ || stage.written < ring_.layout_.writers) {
    ring_.fail(FaultKind::stale_read, state_.stage,
               "reader " + std::to_string(reader_) + " reads it as fill " + std::to_string(fill_) +
                   ", but it holds " +
                   (stage.fill < 0 ? "nothing" : "fill " + std::to_string(stage.fill)) +
                   (stage.written < ring_.layout_.writers ? ", unfinished" : ""));
  }
  ++stage.reading;
  if (ring_.breaks(Fault::early_release, reader_, fill_)) stage.empty.arrive();
  return state_.stage;
}

void RingReader::arrive_empty() {
  Ring::Stage& stage = ring_.at(state_.stage);
  --stage.reading;
  ++stage.read;
  if (!ring_.breaks(Fault::early_release, reader_, fill_)) stage.empty.arrive();
  if (ring_.breaks(Fault::double_release, reader_, fill_)) stage.empty.arrive();
  state_.advance(stages_);
  ++fill_;
}

namespace {

// Picker says which role is asked first. Among random choices one role, drawn for the item, is a
// laggard that runs rarely while others can go on: evenly mixed roles would hardly ever run so far
// apart that the ends of a ring meet.
class Picker {
 public:
  Picker(const Choices& choices, std::size_t roles)
      : choices_(choices), roles_(roles), last_(roles - 1), laggard_(random().x % roles) {}

  std::size_t next() {
    if (choices_.seed == 0) return (last_ + 1) % roles_;
    const PhiloxCounter draw = random();
    const std::size_t role = draw.x % roles_;
    const bool passes_over = role == laggard_ && draw.y % 16 != 0;
    return passes_over ? (role + 1) % roles_ : role;
  }
  void went(std::size_t role) { last_ = role; }

 private:
  PhiloxCounter random() {
    const u64 draw = draws_++;
    return philox({.x = static_cast<u32>(draw),
                   .y = static_cast<u32>(draw >> 32),
                   .z = static_cast<u32>(choices_.item),
                   .w = static_cast<u32>(choices_.item >> 32)},
                  philox_key(choices_.seed));
  }

  Choices choices_;
  std::size_t roles_;
  std::size_t last_;
  u64 draws_ = 0;
  std::size_t laggard_;  // after draws_, which it uses
};

[[noreturn]] void report_deadlock(std::span<const NamedRole> roles) {
  std::string sentence = "no role can go on:";
  for (const NamedRole& each : roles) {
    sentence += std::string(" ") + each.name;
    if (each.role.is_done()) {
      sentence += " is done;";
      continue;
    }
    const Wait& wait = each.role.wait();
    sentence += " waits for " + std::string(wait.place) + " " + wait.what + " " +
                std::to_string(wait.stage) + ";";
  }
  sentence.back() = '.';
  throw RoleFault(FaultKind::deadlock, sentence);
}

}  // namespace

void run_roles(std::span<NamedRole> roles, const Choices& choices, const Probe& probe) {
  Picker picker(choices, roles.size());
  for (std::size_t unfinished = roles.size(); unfinished > 0;) {
    const std::size_t first = picker.next();
    std::size_t asked = 0;
    for (; asked < roles.size(); ++asked) {
      const std::size_t index = (first + asked) % roles.size();
      if (roles[index].role.step() != Progress::progressed) continue;
      picker.went(index);
      if (probe.trace != nullptr) probe.trace->push_back(static_cast<i32>(index));
      if (roles[index].role.is_done()) --unfinished;
      break;
    }
    if (asked == roles.size()) report_deadlock(roles);
  }
}

}  // namespace attnlab::cpu
