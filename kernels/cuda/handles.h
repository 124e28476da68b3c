// Declares the driver's handles by the names that cuda.h gives them, for headers that builds
// without it include, too.
#pragma once

struct CUfunc_st;
struct CUmod_st;
struct CUstream_st;

using CUfunction = CUfunc_st*;
using CUmodule = CUmod_st*;
using CUstream = CUstream_st*;
