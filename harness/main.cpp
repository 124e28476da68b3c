#include "harness/cli.h"
#include "harness/output.h"

int main(int argc, char** argv) {
  attnlab::prepare_output();
  return attnlab::run_command_line(argc, argv);
}
