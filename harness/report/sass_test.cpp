// Tests the reader of nvdisasm's text, and what is made of it, on a text in the form that nvdisasm
// 13.2 prints, cut short. tests/cli_sass_test.cpp and tests/sass_counts_test.cpp run the real
// program.
#include "harness/report/sass.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/report/sass_diff.h"
#include "harness/report/sass_report.h"
#include "harness/report/sass_unit.h"
#include "harness/testing/test_support.h"

namespace attnlab {
namespace {

constexpr const char* kText = R"(	.target	sm_90a

	.elftype	@"ET_EXEC"


//--------------------- .text.forward             --------------------------
	.section	.text.forward,"ax",@progbits
	.align	128
        .global         forward
forward:
.text.forward:
	//## File "/there/v3.cu", line 2
        /*0000*/                   LDC R1, c[0x0][0x28] ;
	//## File "/there/kernels/ptx/wgmma.cuh", line 1 inlined at "/there/kernels/v3/forward.cuh", line 3
	//## File "/there/kernels/v3/forward.cuh", line 3 inlined at "/there/v3.cu", line 2
	//## File "/there/v3.cu", line 2
        /*21b0*/                   UMOV UR10, UR41 ;
        /*21c0*/                   HGMMA.64x128x16.F32 R88, gdesc[UR8], RZ, !UPT ;
	//## File "/there/kernels/v3/forward.cuh", line 4 inlined at "/there/v3.cu", line 2
	//## File "/there/v3.cu", line 2
        /*8320*/                   HGMMA.64x128x16.F32 R24, R180, gdesc[UR8].tnspB, R24, gsb0 ;
        /*00b0*/               @P0 BRA `(.L_x_1) ;
        /*15180*/                   RET.REL.NODEC R2 `(forward) ;
.L_x_170:
        /*15190*/                   BRA `(.L_x_170);
        /*151a0*/                   NOP;
.L_x_172:


//--------------------- SYMBOLS --------------------------

	.type		.nv.reservedSmem.offset0,@object
)";

constexpr const char* kForward = "// v3\n{\n  start_qk();\n  start_pv();\n  start_pv();\n}\n";

SassUnit unit_of(const std::string& sass, const std::string& forward = kForward) {
  return {.unit = {.name = "v3",
                   .source = "#include \"kernels/v3/forward.cuh\"\nforward\n",
                   .entries = {{.name = "forward",
                                .products = {{"S = Q K^T", false, 128, 1, 1},
                                             {"O += P V", true, 128, 1, 1}}}}},
          .compilation = {.unit = "v3", .arch = "sm_90a", .compiler = "NVRTC 13.0"},
          .texts = {{"kernels/v3/forward.cuh", forward}},
          .kernels = parse_sass(sass)};
}

std::string without(std::string text, const std::string& part) {
  const std::size_t place = text.find(part);
  EXPECT_NE(place, std::string::npos) << part;
  return text.erase(place, part.size());
}

TEST(Sass, InstructionsAreReadWithTheirPlaces) {
  const std::vector<SassKernel> kernels = parse_sass(kText);
  ASSERT_EQ(kernels.size(), 1U);
  EXPECT_EQ(kernels[0].name, "forward");
  ASSERT_EQ(kernels[0].instructions.size(), 8U);
  const SassInstruction& product = kernels[0].instructions[2];
  EXPECT_EQ(product.address, "21c0");
  EXPECT_EQ(opcode_of(product), "HGMMA.64x128x16.F32");
  EXPECT_EQ(operation_of(product), "HGMMA");
  EXPECT_EQ(operands_of(product), "R88, gdesc[UR8], RZ, !UPT");
  ASSERT_EQ(product.places.size(), 3U);
  EXPECT_EQ(product.places[0].file, "kernels/ptx/wgmma.cuh");
  EXPECT_EQ(product.places[0].line, 1);
  EXPECT_EQ(product.places[1].file, "kernels/v3/forward.cuh");
  EXPECT_EQ(product.places[2].file, "v3.cu");
  EXPECT_EQ(kernels[0].instructions[3].places.size(), 2U);
  const SassInstruction& branch = kernels[0].instructions[4];
  EXPECT_EQ(branch.text, "@P0 BRA `(.L_x_1)");
  EXPECT_EQ(operation_of(branch), "BRA");
  EXPECT_EQ(operation_of(kernels[0].instructions[7]), "NOP");
  EXPECT_EQ(operands_of(kernels[0].instructions[7]), "");
}

TEST(Sass, WhatIsNoSassHasNoKernels) {
  for (const char* text : {"", "nvdisasm fatal   : Cannot open", "/*0000*/ NOP;", "/*", "//## File",
                           "\t.section\t.nv.info,\"\",@\"SHT_CUDA_INFO\"\n/*0000*/ NOP;"}) {
    EXPECT_TRUE(parse_sass(text).empty()) << text;
  }
  EXPECT_TRUE(parse_sass("\t.section\t.text.f,\"ax\"\n/*0000*/ cut off\n")[0].instructions.empty());
}

TEST(SassKinds, AnOperationIsOfItsKindAlone) {
  const std::pair<const char*, SassKind> known[] = {
      {"HGMMA", SassKind::wgmma},   {"HMMA", SassKind::mma},       {"FFMA", SassKind::fp32},
      {"FFMA2", SassKind::fp32},    {"HFMA2", SassKind::packed},   {"F2FP", SassKind::convert},
      {"MUFU", SassKind::mufu},     {"IMAD", SassKind::integer},   {"UIADD3", SassKind::integer},
      {"LDS", SassKind::shared},    {"LDSM", SassKind::shared},    {"LDG", SassKind::global},
      {"LDGSTS", SassKind::global}, {"LDGDEPBAR", SassKind::sync}, {"UTMALDG", SassKind::bulk},
      {"LDL", SassKind::local},     {"STL", SassKind::local},      {"LDC", SassKind::constants},
      {"SYNCS", SassKind::sync},    {"SHFL", SassKind::warp},      {"BRA", SassKind::branch},
      {"NOP", SassKind::nop},       {"QUUX", SassKind::other},     {"", SassKind::other}};
  for (const auto& [operation, kind] : known) EXPECT_EQ(kind_of(operation), kind) << operation;
  const SassCounts counts = count_kinds(parse_sass(kText)[0]);
  EXPECT_EQ(counts.all, 8U);
  EXPECT_EQ(counts[SassKind::wgmma], 2U);
  EXPECT_EQ(counts[SassKind::branch], 3U);
  EXPECT_EQ(counts.operations[static_cast<std::size_t>(SassKind::branch)].at("BRA"), 2U);
}

TEST(SassUnits, InstructionsCountForTheLineOfTheKernelsOwnFolder) {
  const SassUnit unit = unit_of(kText);
  const std::vector<SassLine> lines = SassText(unit).count_lines(unit.kernels[0]);
  ASSERT_EQ(lines.size(), 3U);
  EXPECT_EQ(lines[0].place.file, "kernels/v3/forward.cuh");
  EXPECT_EQ(lines[0].text, "start_qk();");
  EXPECT_EQ(lines[0].all, 2U);
  EXPECT_EQ(lines[1].text, "start_pv();");
  EXPECT_EQ(lines[1].all, 5U);
  EXPECT_EQ(lines[2].place.file, "v3.cu");
  EXPECT_EQ(lines[2].text, "forward");
}

TEST(SassUnits, WgmmasAreTakenForTheProductOfTheirForm) {
  const SassUnit unit = unit_of(kText);
  const ProductChecks checks = check_products(unit.kernels[0], products_of(unit, "forward"));
  EXPECT_EQ(checks.products[0].found, 1U);
  EXPECT_EQ(checks.products[1].found, 1U);
  EXPECT_EQ(checks.strangers, 0U);
  EXPECT_TRUE(has_complete_products(unit));
  EXPECT_PRED2(contains, render_sass(unit, {}, TableFormat::table),
               "The wgmmas are those of the schedule.");
}

TEST(SassUnits, ProductsOfOneFormShareItsWgmmas) {
  const std::string qk = "HGMMA.64x128x16.F32 R88, gdesc[UR8], RZ, !UPT ;";
  const std::string again = "        /*21d0*/                   " + qk + "\n";
  SassUnit two =
      unit_of(std::string(kText).insert(std::string(kText).find("        /*15180"), again));
  std::vector<WarpgroupProduct>& products = two.unit.entries[0].products;
  products.insert(products.begin() + 1, products[0]);
  products[1].name = "dP = dO V^T";
  EXPECT_TRUE(has_complete_products(two));

  SassUnit one = unit_of(kText);
  one.unit.entries[0].products = products;
  const ProductChecks checks = check_products(one.kernels[0], products);
  EXPECT_EQ(checks.products[0].found, 1U);
  EXPECT_EQ(checks.products[1].found, 0U);
  EXPECT_FALSE(has_complete_products(one));
}

// Lines are broken by the width of the page.
std::string words_of(const SassUnit& unit) {
  std::string text = render_sass(unit, {}, TableFormat::table);
  std::ranges::replace(text, '\n', ' ');
  return text;
}

TEST(SassUnits, WhatIsNotOfTheScheduleIsSaid) {
  const std::string qk = "HGMMA.64x128x16.F32 R88, gdesc[UR8], RZ, !UPT ;";
  SassUnit none = unit_of(without(kText, qk));
  EXPECT_FALSE(has_complete_products(none));
  EXPECT_PRED2(
      contains, words_of(none),
      "S = Q K^T: 0 wgmmas in the SASS are 0 products of 1, where the schedule's text has");

  SassUnit half = unit_of(kText);
  half.unit.entries[0].products[1].steps = 2;
  EXPECT_FALSE(has_complete_products(half));

  SassUnit missing = unit_of(kText);
  missing.unit.entries[0].products[0].places = 2;
  EXPECT_FALSE(has_complete_products(missing));
  EXPECT_PRED2(contains, words_of(missing),
               "2 places: products are missing, or the compiler merged code.");

  const std::string again = "        /*21d0*/                   " + qk + "\n";
  SassUnit copied =
      unit_of(std::string(kText).insert(std::string(kText).find("        /*15180"), again));
  EXPECT_TRUE(has_complete_products(copied));
  EXPECT_PRED2(contains, words_of(copied), "2 products of 1");
  EXPECT_PRED2(contains, words_of(copied), "the compiler copied code");

  SassUnit stranger = unit_of(kText);
  stranger.unit.entries[0].products[0].columns = 64;
  stranger.unit.entries[0].products.erase(stranger.unit.entries[0].products.begin());
  EXPECT_FALSE(has_complete_products(stranger));
  EXPECT_PRED2(contains, words_of(stranger), "1 wgmma has no form of a product of the schedule.");

  SassUnit silent = unit_of(kText);
  silent.unit.entries[0].products.clear();
  EXPECT_TRUE(has_complete_products(silent));
  EXPECT_PRED2(contains, words_of(silent), "these are counts alone.");
}

TEST(SassReport, TheListingHasInstructionsBelowTheirLines) {
  EXPECT_PRED2(contains, render_sass(unit_of(kText), {.listing = true}, TableFormat::table),
               R"(
v3.cu:2  forward
   0000  LDC R1, c[0x0][0x28]

kernels/v3/forward.cuh:3  start_qk();
   21b0  UMOV UR10, UR41                                     kernels/ptx/wgmma.cuh:1
   21c0  HGMMA.64x128x16.F32 R88, gdesc[UR8], RZ, !UPT

kernels/v3/forward.cuh:4  start_pv();
   8320  HGMMA.64x128x16.F32 R24, R180, gdesc[UR8].tnspB, R24, gsb0
   00b0  @P0 BRA `(.L_x_1)
)");
}

TEST(SassReport, DataHasEverything) {
  const auto json = nlohmann::json::parse(render_sass(unit_of(kText), {}, TableFormat::json));
  EXPECT_EQ(json["schema"], kSassSchema);
  EXPECT_EQ(json["unit"], "v3");
  const auto& kernel = json["kernels"][0];
  EXPECT_EQ(kernel["instructions"], 8);
  EXPECT_EQ(kernel["kinds"]["wgmma"], 2);
  EXPECT_EQ(kernel["kinds"]["local"], 0);
  EXPECT_EQ(kernel["products"]["of_schedule"][1]["found"], 1);
  EXPECT_EQ(kernel["lines"][0]["text"], "start_qk();");
  EXPECT_EQ(kernel["sass"][2]["places"][0]["file"], "kernels/ptx/wgmma.cuh");
  EXPECT_PRED2(contains, render_sass(unit_of(kText), {}, TableFormat::csv),
               "\nv3,sm_90a,forward,kernels/v3/forward.cuh,3,wgmma,1\r\n");
}

TEST(SassDiff, LinesAreTheSameWhereTheirTextIs) {
  // A line is put in front, which shifts all others, and an instruction is gone.
  std::string shifted = without(kText, "        /*21b0*/                   UMOV UR10, UR41 ;\n");
  for (const auto& [old, now] : {std::pair("forward.cuh\", line 4", "forward.cuh\", line 5"),
                                 std::pair("forward.cuh\", line 3", "forward.cuh\", line 4")}) {
    for (std::size_t at = 0; (at = shifted.find(old, at)) != std::string::npos; ++at) {
      shifted.replace(at, std::string(old).size(), now);
    }
  }
  const SassUnit unit = unit_of(kText), other = unit_of(shifted, std::string("//\n") + kForward);
  const std::vector<SassLinePair> lines = differing_lines(
      SassText(unit).count_lines(unit.kernels[0]), SassText(other).count_lines(other.kernels[0]));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].text, "start_qk();");
  EXPECT_EQ(lines[0].lines[0], 3);
  EXPECT_EQ(lines[0].lines[1], 4);
  const std::string text = render_sass_diff(unit, other, TableFormat::table);
  EXPECT_PRED2(contains, text, "\ninteger       1       0          -1\n");
  EXPECT_PRED2(contains, text,
               "\nkernels/v3/forward.cuh:3 -> 4          -1  integer 1 -> 0  start_qk();\n");
  const auto json = nlohmann::json::parse(render_sass_diff(unit, other, TableFormat::json));
  EXPECT_EQ(json["kernels"][0]["kinds"]["integer"], nlohmann::json({1, 0}));
  EXPECT_EQ(json["kernels"][0]["lines"].size(), 1U);
  EXPECT_PRED2(contains, render_sass_diff(unit, other, TableFormat::csv),
               "\nforward,kernels/v3/forward.cuh,3,4,integer,1,0\r\n");
}

TEST(SassDiff, LinesOfOneTextAreToldApartByTheirOrder) {
  const std::string second = "        /*8330*/                   MUFU.EX2 R1, R2 ;\n";
  std::string more = kText;
  more.insert(
      more.find("        /*00b0*/"),
      "	//## File \"/there/kernels/v3/forward.cuh\", line 5 inlined at \"/there/v3.cu\", line 2\n" +
          second);
  const SassUnit unit = unit_of(kText), other = unit_of(more);
  const std::vector<SassLinePair> lines = differing_lines(
      SassText(unit).count_lines(unit.kernels[0]), SassText(other).count_lines(other.kernels[0]));
  ASSERT_EQ(lines.size(), 2U);  // what followed on line 4 is of line 5 now
  EXPECT_EQ(lines[0].lines[0], 4);
  EXPECT_EQ(lines[0].lines[1], 4);
  EXPECT_EQ(lines[1].lines[0], 0);
  EXPECT_EQ(lines[1].lines[1], 5);
  EXPECT_EQ(lines[0].text, lines[1].text);
}

}  // namespace
}  // namespace attnlab
