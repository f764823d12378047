// A host program of OpenCL: opencl XCLBIN.
#include "opencl.hpp"

int main(int, char** words) { return add_by_opencl(words[1]); }
