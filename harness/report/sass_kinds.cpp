#include "harness/report/sass_kinds.h"

#include <algorithm>
#include <vector>

namespace attnlab {
namespace {

struct KindRow {
  SassKind kind;
  const char* name;
  // They are named as nvdisasm does; one that ends with '*' stands for all that begin so.
  std::vector<std::string_view> operations;
};

const std::vector<KindRow>& rows() {
  static const std::vector<KindRow> kRows = {
      {SassKind::wgmma, "wgmma", {"HGMMA", "IGMMA", "BGMMA", "QGMMA"}},
      {SassKind::mma, "mma", {"HMMA", "IMMA", "BMMA", "DMMA", "QMMA", "OMMA"}},
      {SassKind::fp32,
       "fp32",
       {"FADD*", "FFMA*", "FMUL*", "FMNMX*", "FSEL", "FSET", "FSETP", "FCHK", "FSWZADD"}},
      {SassKind::packed,
       "packed",
       {"HADD2*", "HFMA2*", "HMUL2*", "HMNMX2", "HSET2", "HSETP2", "VHMNMX"}},
      {SassKind::convert, "convert", {"F2F*", "F2I*", "I2F*", "I2I*", "FRND*", "F2IP", "I2IP"}},
      {SassKind::mufu, "mufu", {"MUFU"}},
      {SassKind::integer,
       "integer",
       {"BMSK",    "BREV",   "CS2R",    "FLO",     "IABS",      "IADD*",  "IDP*",   "IMAD*",
        "IMNMX",   "IMUL*",  "ISCADD*", "ISETP",   "LEA",       "LOP*",   "MOV*",   "P2R",
        "PLOP3",   "POPC",   "PRMT",    "PSETP",   "R2P",       "R2UR",   "S2R",    "S2UR",
        "SEL",     "SGXT",   "SHF",     "SHL",     "SHR",       "UBMSK",  "UBREV",  "UFLO",
        "UIADD3*", "UIMAD*", "UIMNMX",  "UISETP",  "ULEA",      "ULOP*",  "UMOV",   "UP2UR",
        "UPLOP3",  "UPOPC",  "UPRMT",   "UPSETP",  "UR2UP",     "USEL",   "USGXT",  "USHF",
        "USHL",    "USHR",   "UVIADD*", "UVIMNMX", "VABSDIFF*", "VIADD*", "VIMNMX*"}},
      {SassKind::shared, "shared", {"LDS", "LDSM", "STS", "STSM", "ATOMS*"}},
      {SassKind::global,
       "global",
       {"LD", "LDG", "ST", "STG", "ATOM", "ATOMG", "RED", "REDG", "CCTL*", "LDGSTS"}},
      {SassKind::bulk, "bulk", {"UTMA*", "UBLK*"}},
      {SassKind::local, "local", {"LDL", "STL"}},
      {SassKind::constants, "constants", {"LDC*", "ULDC*"}},
      {SassKind::sync,
       "sync",
       {"BAR", "UCGABAR*", "SYNCS*", "DEPBAR", "LDGDEPBAR", "ARRIVES", "MEMBAR", "FENCE*", "ERRBAR",
        "WARPSYNC*", "ENDCOLLECTIVE", "CGAERRBAR", "B2R", "WARPGROUP*", "NANOSLEEP", "ACQBULK",
        "USETMAXREG"}},
      {SassKind::warp, "warp", {"SHFL", "VOTE*", "REDUX", "MATCH", "ELECT"}},
      {SassKind::branch,
       "branch",
       {"BRA*", "BRX*", "JMP*", "JMX*", "CALL", "RET", "EXIT", "BSSY*", "BSYNC*", "BREAK", "BMOV",
        "BPT", "KILL", "YIELD", "WARPEXIT", "RPCMOV"}},
      {SassKind::nop, "nop", {"NOP"}},
      {SassKind::other, "other", {}},
  };
  return kRows;
}

bool stands_for(std::string_view pattern, std::string_view operation) {
  if (!pattern.ends_with('*')) return pattern == operation;
  return operation.starts_with(pattern.substr(0, pattern.size() - 1));
}

}  // namespace

const char* name_of(SassKind kind) { return rows()[static_cast<std::size_t>(kind)].name; }

SassKind kind_of(std::string_view operation) {
  for (const KindRow& row : rows()) {
    if (std::ranges::any_of(row.operations, [&](std::string_view pattern) {
          return stands_for(pattern, operation);
        })) {
      return row.kind;
    }
  }
  return SassKind::other;
}

void count(const SassInstruction& instruction, SassCounts& counts) {
  const std::string operation(operation_of(instruction));
  const auto kind = static_cast<std::size_t>(kind_of(operation));
  ++counts.kinds[kind];
  ++counts.operations[kind][operation];
  ++counts.all;
}

void add(const SassCounts& counts, SassCounts& sum) {
  for (std::size_t kind = 0; kind < kSassKinds; ++kind) {
    sum.kinds[kind] += counts.kinds[kind];
    for (const auto& [operation, count] : counts.operations[kind]) {
      sum.operations[kind][operation] += count;
    }
  }
  sum.all += counts.all;
}

SassCounts count_kinds(const SassKernel& kernel) {
  SassCounts counts;
  for (const SassInstruction& instruction : kernel.instructions) count(instruction, counts);
  return counts;
}

}  // namespace attnlab
