#include "harness/cli.h"

int main(int argc, char** argv) { return attnlab::run_command_line(argc, argv); }
