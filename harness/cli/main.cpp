#include "harness/base/output.h"
#include "harness/cli/cli.h"

int main(int argc, char** argv) {
  attnlab::prepare_output();
  return attnlab::run_command_line(argc, argv);
}
